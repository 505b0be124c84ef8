//! A client that keeps the key and repeats.

use std::{
    io::{Read, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use crate::process::PATIENCE;

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) is_replay: bool,
    /// The problem that we say ourselves.
    pub(crate) problem: Option<String>,
    pub(crate) body: String,
}

/// Between two repeats; a client would take longer.
const PAUSE: Duration = Duration::from_millis(50);

/// Pays once; `None` if the whole answer did not come.
pub(crate) fn pay(address: &str, key: &str) -> Option<Answer> {
    send(address, &format!("Idempotency-Key: {key}\r\n"))
}

/// Pays once, before a backend that is asked to misbehave.
pub(crate) fn pay_misbehaving(address: &str, key: &str, deed: &str) -> Option<Answer> {
    send(address, &format!("Idempotency-Key: {key}\r\nMisbehave: {deed}\r\n"))
}

/// Repeats until the answer is final: a first one, a replay, or a problem that repeating does not end.
pub(crate) fn conclude(address: &str, key: &str) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = pay(address, key).expect("the gateway answers");
        let passing = ["in-flight", "upstream-timeout", "upstream-failed", "store-unavailable"];
        match answer.problem.as_deref() {
            Some(problem) if passing.contains(&problem) => assert!(Instant::now() < deadline, "{key} stays blocked"),
            Some(_) | None => return answer,
        }
        thread::sleep(PAUSE);
    }
}

/// Posts a payment with these header fields, each ended by CRLF.
pub(crate) fn send(address: &str, fields: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"amount":100}"#;
    let head = format!("POST /payments HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}");
    let json = "Content-Type: application/json\r\n";
    write!(stream, "{head}{json}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    read(&text)
}

fn read(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let field = |name: &str| {
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let length: usize = field("content-length")?.parse().ok()?;
    (body.len() == length).then(|| Answer {
        status: head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer has a status"),
        is_replay: field("idempotent-replayed").is_some(),
        problem: field("oncegate-problem"),
        body: body.to_owned(),
    })
}
