//! As much of HTTP/1.1 as the tests need.

use std::{
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
};

use crate::process::PATIENCE;

/// An answer, or a request: its first line, its fields with names in lower case, its body.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) first_line: String,
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Message {
    pub(crate) fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields_like(|each| each == name).next()
    }

    /// The values of all fields whose name is such a one.
    pub(crate) fn fields_like(&self, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(name, _)| is_meant(name)).map(|(_, value)| &**value)
    }
}

/// `POST /payments` with a key.
pub(crate) fn pay(address: &str, key: &str) -> Message {
    let field = format!("Idempotency-Key: {key}\r\n");
    send(address, "POST", "/payments", &field).answer()
}

/// GET with these fields, each ended by CRLF.
pub(crate) fn get(address: &str, path: &str, fields: &str) -> Message {
    send(address, "GET", path, fields).answer()
}

/// A request whose answer was not read yet. Dropping it closes the connection.
pub(crate) struct Sent(TcpStream);

pub(crate) fn send(address: &str, method: &str, path: &str, fields: &str) -> Sent {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = if method == "POST" { "amount=1" } else { "" };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    Sent(stream)
}

impl Sent {
    pub(crate) fn answer(mut self) -> Message {
        read(&mut self.0).expect("an answer")
    }
}

/// Reads one message; `None` if the connection ends before its first byte.
pub(crate) fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
    };
    let first_line = line()?;
    let mut fields = Vec::new();
    while let Some(field) = line() {
        let (name, value) = field.split_once(':').expect("a field");
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut message = Message { first_line, fields, body: String::new() };
    let length = message.field("content-length").map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_string(&mut message.body).unwrap();
    Some(message)
}
