//! C67 to C73: between a client, its proxies and the service.

use std::convert::Infallible;

use bytes::Bytes;
use http::Method;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::harness::{Gate, post, reply, wire, with_headers};

#[tokio::test]
async fn c67_a_preflight_passes_to_the_service_and_is_not_recorded() {
    let mut gate = Gate::start("[defaults]\nrequired = true\n").await;
    let preflight = post("/statuses", "")
        .method(Method::OPTIONS)
        .without("content-type")
        .without("idempotency-key")
        .with("origin", "https://app.example")
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "idempotency-key, content-type");
    for _ in 0..2 {
        let sent = gate.send(preflight.clone());
        let call = gate.service.call().await;
        assert_eq!(call.header("access-control-request-headers"), Some("idempotency-key, content-type"));
        call.answer(with_headers(reply(204, ""), &[("access-control-allow-headers", "Idempotency-Key")]));
        let answer = sent.await.unwrap();
        answer.is_executed(204, "");
        assert_eq!(answer.header("access-control-allow-headers"), Some("Idempotency-Key"));
    }
    // Also with a key, as some clients put it everywhere.
    let sent = gate.send(preflight.with("idempotency-key", "K1"));
    gate.service.call().await.answer(reply(204, ""));
    sent.await.unwrap().is_executed(204, "");
    assert!(gate.records().await.is_empty());
    assert_eq!(gate.executions(), 3);

    // The answer that the preflight allows a page to read is the service's own, with its permission.
    let status = post("/statuses", "{}").with("origin", "https://app.example");
    let allowed = with_headers(reply(201, "posted"), &[("access-control-allow-origin", "https://app.example")]);
    let first = gate.exchange(status, allowed).await;
    first.is_executed(201, "posted");
    assert_eq!(first.header("access-control-allow-origin"), Some("https://app.example"));
}

/// What the gateway says to a head that announces its body, and to the body if it asks for it.
async fn expecting(gate: &Gate, fields: &str, body: &str) -> (bool, TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(&gate.server.address).await.unwrap();
    let head = "POST /up HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer A\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Expect: 100-continue\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(4).any(|window| window == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "no answer");
    }
    let is_asked = seen.starts_with(b"HTTP/1.1 100 ");
    if is_asked {
        seen.clear();
        stream.write_all(body.as_bytes()).await.unwrap();
    }
    (is_asked, stream, seen)
}

/// The rest of the answer, to the end of its connection, which is no reset.
async fn rest(mut stream: TcpStream, mut seen: Vec<u8>) -> String {
    stream.read_to_end(&mut seen).await.unwrap();
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn c68_a_refusal_that_needs_no_body_comes_before_100_continue() {
    let mut gate = Gate::start("[defaults]\nmax_request_body = \"1KiB\"\n").await;
    for (fields, status, problem) in [
        ("Idempotency-Key: K1\r\nContent-Length: 50000000\r\n", 413, "request-too-large"),
        ("Idempotency-Key: a b\r\nContent-Length: 2\r\n", 400, "key-invalid"),
    ] {
        let (is_asked, stream, seen) = expecting(&gate, fields, "").await;
        assert!(!is_asked, "{fields}");
        let answer = rest(stream, seen).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(problem), "{answer}");
    }
    // A client that does not wait for the 100 sends on, and gets the same answer and no reset.
    for (fields, problem) in [
        ("Idempotency-Key: K1\r\nContent-Length: 4000000\r\n", "request-too-large"),
        ("Idempotency-Key: a b\r\nContent-Length: 4000000\r\n", "key-invalid"),
    ] {
        let head = "POST /up HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer A\r\nExpect: 100-continue\r\n";
        let request = format!("{head}{fields}\r\n{}", "x".repeat(4_000_000));
        let answer = wire(&gate.server.address, request.as_bytes()).await;
        assert_eq!(answer.header("oncegate-problem"), Some(problem));
    }
    assert_eq!(gate.executions(), 0);
    assert!(gate.records().await.is_empty());

    // What is answered by comparing bodies needs the body, and so does a length that is not known before.
    let fields = "Idempotency-Key: K2\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    let (is_asked, stream, seen) = expecting(&gate, fields, &format!("800\r\n{}\r\n0\r\n\r\n", "x".repeat(2048))).await;
    assert!(is_asked);
    let answer = rest(stream, seen).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("request-too-large"), "{answer}");
    assert_eq!(gate.executions(), 0);
    let fields = "Idempotency-Key: K1\r\nConnection: close\r\nContent-Length: 2\r\n";
    let (is_asked, stream, seen) = expecting(&gate, fields, "{}").await;
    assert!(is_asked);
    let call = gate.service.call().await;
    assert_eq!(call.body, "{}");
    call.answer(reply(401, "who"));
    let answer = rest(stream, seen).await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.ends_with("\r\n\r\nwho"), "{answer}");
    gate.exchange(post("/up", "{}"), reply(201, "uploaded")).await.is_executed(201, "uploaded");
    let (is_asked, stream, seen) = expecting(&gate, fields, "{}").await;
    assert!(is_asked);
    let answer = rest(stream, seen).await;
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.ends_with("\r\n\r\nuploaded"), "{answer}");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c69_a_request_that_a_proxy_sends_again_to_another_gateway_executes_once() {
    let mut gate = Gate::start("[[route]]\nname = \"patient\"\nmatch = \"POST /reports\"\nwait = \"30s\"\n").await;
    let other = gate.another("[[route]]\nname = \"patient\"\nmatch = \"POST /reports\"\nwait = \"30s\"\n").await;
    for path in ["/orders", "/reports"] {
        let request = post(path, "{}").key(path);
        let timed_out = gate.send(request.clone());
        let call = gate.service.call().await;
        timed_out.abort();
        let again = gate.send_to(&other.address, request.clone());
        if path == "/orders" {
            again.await.unwrap().problem(409, "in-flight");
            call.answer(reply(201, "created"));
            gate.conclude(&request).await.is_replay_of(201, "created");
        } else {
            call.answer(reply(201, "created"));
            again.await.unwrap().is_replay_of(201, "created");
        }
    }
    assert_eq!(gate.executions(), 2);
}

/// A kept connection that breaks is what makes clients send again by themselves, since the request bears a key.
#[tokio::test]
async fn c70_what_was_sent_on_a_kept_connection_is_not_sent_again() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/orders", "{}"), reply(201, "kept alive")).await.is_executed(201, "kept alive");
    for key in [Some("K2"), None] {
        let request =
            key.map_or(post("/orders", "{}").without("idempotency-key"), |key| post("/orders", "{}").key(key));
        let before = gate.executions();
        let sent = gate.send(request.clone());
        let call = gate.service.call().await;
        assert_eq!(call.header("idempotency-key"), key, "the key is passed on");
        call.hang_up();
        assert_eq!(sent.await.unwrap().status, 502);
        assert_eq!(gate.executions(), before + 1, "sent again by the gateway");
    }
    gate.repeat(post("/orders", "{}").key("K2")).await.problem(409, "unknown");
}

#[tokio::test]
async fn c71_a_stream_that_is_cancelled_within_its_body_is_not_executed() {
    let mut gate = Gate::start("").await;
    let request = post("/orders", "{}");
    let (parts, body) = tokio::sync::mpsc::unbounded_channel();
    let body = StreamBody::new(UnboundedReceiverStream::<Result<Frame<Bytes>, Infallible>>::new(body));
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let half = tokio::spawn(client.request(request.to(&gate.server.address).map(|_| body)));
    parts.send(Ok(Frame::data("{".into()))).unwrap();
    // Another stream of the connection passes by, so the first part has arrived.
    let whole = request.clone().key("K2").to(&gate.server.address);
    let by = StreamBody::new(UnboundedReceiverStream::new({
        let (parts, body) = tokio::sync::mpsc::unbounded_channel();
        parts.send(Ok(Frame::data("{}".into()))).unwrap();
        body
    }));
    let passing = tokio::spawn(client.request(whole.map(|_| by)));
    let call = gate.service.call().await;
    half.abort();
    assert!(half.await.is_err());
    call.answer(reply(201, "the other"));
    assert_eq!(passing.await.unwrap().unwrap().status(), 201);
    gate.exchange(request, reply(201, "ordered")).await.is_executed(201, "ordered");
    assert_eq!((gate.executions(), gate.records().await.len()), (2, 2));
}

/// Streams that a service refuses wait for services that are spoken to by HTTP/2.
#[tokio::test]
async fn c71_a_stream_that_the_client_cancels_executes_to_its_end() {
    let mut gate = Gate::start("").await;
    let request = post("/orders", "{}");
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let cancelled = tokio::spawn(client.request(request.to(&gate.server.address)));
    let call = gate.service.call().await;
    cancelled.abort();
    assert!(cancelled.await.is_err());
    call.answer(reply(201, "ordered"));
    gate.conclude(&request).await.is_replay_of(201, "ordered");
    gate.send_by_http2(&request).await.is_replay_of(201, "ordered");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c72_a_client_that_leaves_does_not_cancel_what_the_service_commits() {
    let mut gate = Gate::start("").await;
    let document = post("/docs", "{}");
    let lost = gate.send(document.clone());
    let call = gate.service.call().await;
    lost.abort();
    assert!(lost.await.is_err());
    gate.repeat(document.clone()).await.problem(409, "in-flight");
    call.answer(reply(201, "written"));
    gate.conclude(&document).await.is_replay_of(201, "written");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c72_a_stop_waits_for_what_is_executed_although_its_client_left() {
    let mut gate = Gate::start("").await;
    let document = post("/docs", "{}");
    let lost = gate.send(document.clone());
    let call = gate.service.call().await;
    lost.abort();
    assert!(lost.await.is_err());
    gate.server.signal(Signal::TERM);
    call.answer(reply(201, "written"));
    gate.server.ended().await;
    gate.restart("").await;
    gate.repeat(document).await.is_replay_of(201, "written");
    assert_eq!(gate.executions(), 1);
}
