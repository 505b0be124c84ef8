//! One side of a TCP connection, as bytes.

use std::{future::Future, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Ends a test that waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection whose test end reads and writes what it likes.
pub(super) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A message head, as it came.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) first_line: String,
    /// Names in lower case.
    pub(super) fields: Vec<(String, String)>,
}

/// Gives up on `future` with a panic that says what was waited for.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

// === impl Wire ===

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon("room to send", self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends until the other side takes no more; says whether it took everything.
    pub(super) async fn send_all_or_fail(&mut self, bytes: &[u8]) -> bool {
        soon("room to send", self.stream.write_all(bytes)).await.is_ok()
    }

    /// The next message head.
    pub(super) async fn head(&mut self) -> Head {
        self.try_head().await.unwrap_or_else(|| panic!("closed before a head: {:?}", self.received_text()))
    }

    /// The next message head; `None` if the connection is closed instead.
    pub(super) async fn try_head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                let text: Vec<u8> = self.received.drain(..end + 4).collect();
                return Some(Head::parse(std::str::from_utf8(&text).unwrap()));
            }
            if !self.receive("a head").await {
                return None;
            }
        }
    }

    /// The next `count` bytes.
    pub(super) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive("bytes").await, "closed after {:?}", self.received_text());
        }
        self.received.drain(..count).collect()
    }

    /// The next bytes, as text of the length of `expected`.
    pub(super) async fn expect(&mut self, expected: &str) {
        let got = self.bytes(expected.len()).await;
        assert_eq!(String::from_utf8_lossy(&got), expected);
    }

    /// A body in chunks, put together, and the trailer section behind it.
    pub(super) async fn chunked(&mut self) -> (Vec<u8>, String) {
        let mut body = Vec::new();
        loop {
            let size = self.line().await;
            let size = usize::from_str_radix(&size, 16).unwrap();
            if size == 0 {
                break;
            }
            body.extend(self.bytes(size).await);
            assert_eq!(self.line().await, "");
        }
        let mut trailers = String::new();
        loop {
            let line = self.line().await;
            if line.is_empty() {
                return (body, trailers);
            }
            trailers.push_str(&line);
            trailers.push('\n');
        }
    }

    /// Everything until the other side closes, whether politely or not.
    pub(super) async fn rest(&mut self) -> String {
        while self.receive("the end").await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned()
    }

    /// Waits until the other side has closed; there must be nothing else to read.
    pub(super) async fn closed(&mut self) {
        assert_eq!(self.rest().await, "");
    }

    /// Closes with a reset, as a process that dies with unread data does.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Says that nothing more will be sent; what comes can still be read.
    pub(super) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert!(self.receive("a line").await, "closed within a line: {:?}", self.received_text());
        }
    }

    async fn receive(&mut self, what: &str) -> bool {
        let read = soon(what, self.stream.read_buf(&mut self.received)).await;
        read.is_ok_and(|count| count > 0)
    }

    fn received_text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

// === impl Head ===

impl Head {
    fn parse(text: &str) -> Self {
        let mut lines = text.trim_end().split("\r\n");
        let first_line = lines.next().unwrap().to_owned();
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?}"));
            (name.to_lowercase(), value.to_owned())
        });
        Self { first_line, fields: fields.collect() }
    }

    /// The value of a field that must not be repeated.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() <= 1, "{name} is repeated: {values:?}");
        values.first().copied()
    }

    /// The values of a field, in their order.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(mine, _)| mine == name).map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}
