//! Bodies that nobody reads to their end, in both framings: what follows them on the connection stays in step.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::harness::{Answer, Gate, post, reply, wire};

const FIELDS: &str = "Host: test\r\nAuthorization: Bearer A\r\nContent-Type: application/json\r\n";

/// What a request with this body looks like on the wire, in each framing.
fn framed(fields: &str, body: &str) -> [String; 2] {
    let head = format!("POST /x HTTP/1.1\r\n{FIELDS}{fields}");
    [
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    ]
}

/// The answer of `Idempotency-Key: K1` is asked for behind something else, on the same connection.
async fn followed_by_a_repeat(gate: &Gate, request: &str) -> Answer {
    let [repeat, _] = framed("Connection: close\r\nIdempotency-Key: K1\r\n", "{}");
    wire(&gate.server.address, [request, &repeat].concat().as_bytes()).await
}

/// Two answers, one behind the other: a problem, and then the replay of `created`.
fn is_refused_then_replayed(answers: &Answer, status: u16, problem: &str) {
    assert_eq!((answers.status, answers.header("oncegate-problem")), (status, Some(problem)), "{answers:?}");
    let length: usize = answers.header("content-length").unwrap().parse().unwrap();
    let second = std::str::from_utf8(&answers.body[length..]).unwrap();
    assert!(second.starts_with("HTTP/1.1 201 ") && second.ends_with("\r\n\r\ncreated"), "{second:?}");
    assert!(second.contains("idempotent-replayed: true"), "{second:?}");
}

#[tokio::test]
async fn a_request_behind_a_refused_one_is_answered_and_its_body_is_no_request() {
    let mut gate = Gate::start("[defaults]\nmax_request_body = \"1KiB\"\n").await;
    gate.exchange(post("/x", "{}"), reply(201, "created")).await.is_executed(201, "created");
    let smuggled = "POST /smuggled HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
    for request in framed("Idempotency-Key: a b\r\n", smuggled) {
        is_refused_then_replayed(&followed_by_a_repeat(&gate, &request).await, 400, "key-invalid");
    }
    for request in framed("Idempotency-Key: K2\r\n", &smuggled.repeat(1000)) {
        is_refused_then_replayed(&followed_by_a_repeat(&gate, &request).await, 413, "request-too-large");
    }
    for request in framed("Idempotency-Key: K1\r\n", smuggled) {
        is_refused_then_replayed(&followed_by_a_repeat(&gate, &request).await, 422, "mismatch");
    }
    assert_eq!(gate.executions(), 1, "a body was taken for a request");
}

#[tokio::test]
async fn a_request_behind_a_409_is_answered() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/x", "{}"), reply(201, "created")).await.is_executed(201, "created");
    let running = gate.send(post("/x", "{}").key("K2"));
    let call = gate.service.call().await;
    for request in framed("Idempotency-Key: K2\r\n", "{}") {
        is_refused_then_replayed(&followed_by_a_repeat(&gate, &request).await, 409, "in-flight");
    }
    call.answer(reply(201, "created too"));
    running.await.unwrap().is_executed(201, "created too");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_in_the_middle_of_a_long_body() {
    let gate = Gate::start("[defaults]\nmax_request_body = \"1KiB\"\n").await;
    for request in framed("Connection: close\r\nIdempotency-Key: K2\r\n", &"x".repeat(8 << 20)) {
        let answer = wire(&gate.server.address, request.as_bytes()).await;
        answer.problem(413, "request-too-large");
    }
}

#[tokio::test]
async fn a_body_that_is_not_sent_whole_is_never_forwarded() {
    let mut gate = Gate::start("").await;
    let head = format!("POST /x HTTP/1.1\r\n{FIELDS}Idempotency-Key: K1\r\n");
    for cut in ["Content-Length: 20\r\n\r\n{\"a\":1}", "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n"] {
        let mut stream = TcpStream::connect(&gate.server.address).await.unwrap();
        stream.write_all(format!("{head}{cut}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut seen = Vec::new();
        stream.read_to_end(&mut seen).await.ok();
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.is_empty() || seen.contains("request-cut-short"), "{seen}");
    }
    assert!(gate.records().await.is_empty());
    assert_eq!(gate.executions(), 0);
    gate.exchange(post("/x", r#"{"a":1}"#), reply(201, "created")).await.is_executed(201, "created");
}

/// What a service answers before it has read what it was sent, and then hangs up on.
async fn refuse_early(listener: &TcpListener, reads_on: bool) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0, "no head");
    }
    let refusal = "HTTP/1.1 422 Unprocessable Content\r\nConnection: close\r\nContent-Length: 7\r\n\r\nrefused";
    stream.write_all(refusal.as_bytes()).await.unwrap();
    if reads_on {
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_service_has_read_the_body_is_recorded() {
    let mut gate = Gate::start("").await;
    gate.service.refuse().await;
    let listener = TcpListener::bind(&gate.service.address).await.unwrap();
    // Long enough that it does not fit into the sockets' buffers.
    let body = "x".repeat(8 << 20);
    for (number, reads_on) in [true, false, false, false].into_iter().enumerate() {
        for framing in 0..2 {
            let key = format!("Connection: close\r\nIdempotency-Key: early-{number}-{framing}\r\n");
            let request = &framed(&key, &body)[framing];
            let (answer, ()) =
                tokio::join!(wire(&gate.server.address, request.as_bytes()), refuse_early(&listener, reads_on));
            answer.is_executed(422, "refused");
            wire(&gate.server.address, request.as_bytes()).await.is_replay_of(422, "refused");
        }
    }
}
