//! C65 and C66: answers that come in parts, and answers that break off.

use http_body::Frame;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Gate, post, streamed, with_headers};

/// A client that reads an answer as it comes.
struct Reader {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Reader {
    /// Sends what `post(path, "{}").key(key)` sends.
    async fn post(gate: &Gate, path: &str, key: &str) -> Self {
        let mut stream = TcpStream::connect(&gate.server.address).await.unwrap();
        let fields = "Host: test\r\nAuthorization: Bearer A\r\nContent-Type: application/json\r\nContent-Length: 2";
        let request = format!("POST {path} HTTP/1.1\r\n{fields}\r\nIdempotency-Key: {key}\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, seen: Vec::new() }
    }

    /// Reads until `part` has come.
    async fn until(&mut self, part: &str) {
        while !self.seen.windows(part.len()).any(|window| window == part.as_bytes()) {
            let read = self.stream.read_buf(&mut self.seen).await.unwrap();
            assert_ne!(read, 0, "ended before {part:?}: {}", String::from_utf8_lossy(&self.seen));
        }
    }

    /// Reads on to the end of the connection, by a reset or not.
    async fn rest(mut self) -> Vec<u8> {
        self.stream.read_to_end(&mut self.seen).await.ok();
        self.seen
    }
}

#[tokio::test]
async fn c65_a_stream_is_forwarded_as_it_comes_and_replayed_whole() {
    let mut gate = Gate::start("").await;
    let mut reader = Reader::post(&gate, "/chat", "K1").await;
    let (parts, answer) = streamed(200);
    gate.service.call().await.answer(with_headers(answer, &[("content-type", "text/event-stream")]));
    let mut whole = String::new();
    for number in 0..4 {
        let part = format!("part {number} {}", ".".repeat(500));
        parts.send(Ok(Frame::data(part.clone().into()))).unwrap();
        reader.until(&format!("part {number}")).await;
        gate.repeat(post("/chat", "{}")).await.problem(409, "in-flight");
        whole.push_str(&part);
    }
    drop(parts);
    // The end of the answer waits for its record.
    reader.until("\r\n0\r\n\r\n").await;
    let repeat = gate.repeat(post("/chat", "{}")).await;
    repeat.is_replay_of(200, &whole);
    assert_eq!(repeat.header("content-type"), Some("text/event-stream"));
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c66_an_answer_that_broke_off_is_never_replayed() {
    let mut gate = Gate::start("").await;
    for (key, length) in [("sized", Some("1000")), ("chunked", None)] {
        let request = post("/exports", "{}").key(key);
        let mut reader = Reader::post(&gate, "/exports", key).await;
        let (parts, mut answer) = streamed(200);
        if let Some(length) = length {
            answer = with_headers(answer, &[("content-length", length)]);
        }
        gate.service.call().await.answer(answer);
        let begin = ".".repeat(400);
        parts.send(Ok(Frame::data(begin.clone().into()))).unwrap();
        reader.until(&begin).await;
        parts.send(Err("breaks off".into())).unwrap();
        let seen = reader.rest().await;
        assert!(seen.ends_with(begin.as_bytes()) || seen.ends_with(b".\r\n"), "the client must notice that it is cut");
        let problem = gate.conclude(&request).await.problem(409, "unknown");
        assert_eq!((&problem["retry"], &problem["reason"]), (&"operator".into(), &"body cut short".into()));
    }
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c66_a_client_that_leaves_in_the_middle_finds_the_whole_answer_later() {
    let mut gate = Gate::start("").await;
    let mut reader = Reader::post(&gate, "/exports", "K1").await;
    let (parts, answer) = streamed(200);
    gate.service.call().await.answer(with_headers(answer, &[("content-length", "1000")]));
    let (begin, end) = (".".repeat(100), "!".repeat(900));
    parts.send(Ok(Frame::data(begin.clone().into()))).unwrap();
    reader.until(&begin).await;
    drop(reader);
    parts.send(Ok(Frame::data(end.clone().into()))).unwrap();
    drop(parts);
    gate.conclude(&post("/exports", "{}")).await.is_replay_of(200, &(begin + &end));
    assert_eq!(gate.executions(), 1);
}
