//! `/api/…` of the admin listener, which is answered only under a name that nobody else can own.

use std::{io::Write as _, net::TcpStream};

use serde_json::Value;

use crate::{
    http,
    process::{Gate, PATIENCE},
};

/// What a path of the API answers.
pub(crate) fn api(gate: &Gate, path: &str) -> Value {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gate.admin).unwrap();
    let answer = http::read(&mut stream).unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Has an order carried out.
pub(crate) fn command(gate: &Gate, path: &str, order: &Value) {
    let (mut stream, order) = (TcpStream::connect(&gate.admin).unwrap(), order.to_string());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", gate.admin);
    write!(stream, "{head}Connection: close\r\nContent-Length: {}\r\n\r\n{order}", order.len()).unwrap();
    let answer = http::read(&mut stream).unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.body);
}
