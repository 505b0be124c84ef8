//! HTTP/1.1 messages, read from a connection as they come.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Ends a test that waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection and what was read from it too far.
pub(crate) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The first line and the fields, names in lower case.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) first_line: String,
    fields: Vec<(String, String)>,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(usize),
    Chunks,
    UntilClose,
}

// === impl Wire ===

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the other side reads");
    }

    /// The next head; `None` where the connection was closed instead.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                let bytes: Vec<u8> = self.received.drain(..end + 4).collect();
                return Some(Head::parse(&String::from_utf8_lossy(&bytes)));
            }
            if !self.receive().await {
                return None;
            }
        }
    }

    /// A body, and the trailers behind it.
    pub(crate) async fn body(&mut self, framing: Framing) -> (Vec<u8>, Vec<String>) {
        match framing {
            Framing::None => (Vec::new(), Vec::new()),
            Framing::Length(length) => (self.bytes(length).await, Vec::new()),
            Framing::Chunks => self.chunks().await,
            Framing::UntilClose => {
                while self.receive().await {}
                (std::mem::take(&mut self.received), Vec::new())
            }
        }
    }

    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive().await, "closed within {:?}", String::from_utf8_lossy(&self.received));
        }
        self.received.drain(..count).collect()
    }

    async fn chunks(&mut self) -> (Vec<u8>, Vec<String>) {
        let mut body = Vec::new();
        loop {
            let line = self.line().await;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).expect("a chunk begins with its size");
            body.extend(self.bytes(size).await);
            if size == 0 {
                break;
            }
            assert_eq!(self.line().await, "");
        }
        let mut trailers = Vec::new();
        loop {
            match self.line().await {
                line if line.is_empty() => return (body, trailers),
                line => trailers.push(line.to_lowercase()),
            }
        }
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(self.receive().await, "closed within a line");
        }
    }

    async fn receive(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
        read.expect("bytes come in time").is_ok_and(|count| count > 0)
    }
}

// === impl Head ===

impl Head {
    /// The head at the start of a message.
    pub(crate) fn parse(text: &str) -> Self {
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let mut lines = head.split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_owned();
        let fields = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        });
        Self { first_line, fields: fields.collect() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(mine, _)| mine == name).map(|(_, value)| value.as_str())
    }

    /// The values of each field in their order, without these fields.
    pub(crate) fn grouped(&self, without: &[&str]) -> BTreeMap<String, Vec<String>> {
        let mut grouped = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in self.fields.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
            grouped.entry(name.clone()).or_default().push(value.clone());
        }
        grouped
    }

    /// Of a request.
    pub(crate) fn request_framing(&self) -> Framing {
        self.framing(Framing::None)
    }

    /// Of the response to a request with this method.
    pub(crate) fn response_framing(&self, method: &str) -> Framing {
        let status = self.first_line.split(' ').nth(1).unwrap_or_default();
        match (method, status) {
            ("HEAD", _) | (_, "204" | "304" | "101") => Framing::None,
            _ => self.framing(Framing::UntilClose),
        }
    }

    fn framing(&self, otherwise: Framing) -> Framing {
        if self.get("transfer-encoding").is_some() {
            return Framing::Chunks;
        }
        let length = self.get("content-length").map(|length| length.parse().expect("a length is a number"));
        length.map_or(otherwise, Framing::Length)
    }
}
