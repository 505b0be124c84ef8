//! Choices of routes, as clients see them, that no public case is about.

use std::time::Duration;

use http::Method;
use http_body::Frame;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::harness::{Gate, post, reply, streamed, wire};

#[tokio::test]
async fn callers_that_nothing_identifies_can_be_refused() {
    let mut gate = Gate::start("[defaults]\nanonymous = \"reject\"\n").await;
    let request = post("/orders", "{}");
    let problem = gate.repeat(request.clone().without("authorization")).await.problem(400, "scope-missing");
    assert!(problem["detail"].as_str().unwrap().contains("Authorization"), "{problem}");
    assert!(gate.records().await.is_empty());
    gate.exchange(request.clone(), reply(201, "ordered")).await.is_executed(201, "ordered");
    gate.repeat(request.clone()).await.is_replay_of(201, "ordered");
    // What is not guarded needs no caller.
    let keyless = request.without("authorization").without("idempotency-key");
    gate.exchange(keyless, reply(201, "unguarded")).await.is_executed(201, "unguarded");
}

#[tokio::test]
async fn a_cookie_can_identify_the_caller() {
    let mut gate = Gate::start("[defaults]\nscope = [\"cookie:sid\"]\n").await;
    let with = |cookie: &str| post("/orders", "{}").with("cookie", cookie);
    gate.exchange(with("theme=dark; sid=s1"), reply(201, "one")).await.is_executed(201, "one");
    gate.exchange(with("sid=s2"), reply(201, "two")).await.is_executed(201, "two");
    // It replaces the credential, and other cookies mean nothing.
    let rotated = with("sid=s1; seen=yes").with("authorization", "Bearer rotated");
    gate.repeat(rotated).await.is_replay_of(201, "one");
    let records = gate.records().await;
    assert!(records.iter().all(|record| !record.id.scope().as_str().contains("s1")), "a session is no name to keep");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn the_key_can_come_in_another_header() {
    let config = "[defaults]\nkey = \"header:PayPal-Request-Id\"\nrequired = true\n";
    let mut gate = Gate::start(config).await;
    let request = post("/orders", "{}");
    let problem = gate.repeat(request.clone()).await.problem(400, "key-missing");
    assert!(problem["detail"].as_str().unwrap().contains("paypal-request-id"), "{problem}");
    let keyed = |key: &str| request.clone().with("paypal-request-id", key);
    let sent = gate.send(keyed("\"P1\""));
    let call = gate.service.call().await;
    assert_eq!((call.header("paypal-request-id"), call.header("idempotency-key")), (Some("\"P1\""), Some("K1")));
    call.answer(reply(201, "ordered"));
    sent.await.unwrap().is_executed(201, "ordered");
    gate.repeat(keyed("P1").key("another")).await.is_replay_of(201, "ordered");
    gate.repeat(keyed("a b")).await.problem(400, "key-invalid");
    gate.repeat(keyed("P1").also("paypal-request-id", "P1")).await.problem(400, "key-repeated");
}

#[tokio::test]
async fn a_body_without_the_key_that_its_route_wants_is_refused_or_passes() {
    let config = r#"
        [[route]]
        name = "strict"
        match = "POST /strict"
        key = "body:/event/id"
        required = true
        [[route]]
        name = "loose"
        match = "POST /loose"
        key = "body:/event/id"
    "#;
    let mut gate = Gate::start(config).await;
    let event = |path: &str, body: &str| post(path, body).without("idempotency-key");
    for body in ["{}", r#"{"event":{"id":null}}"#, r#"{"event":{"id":["evt_1"]}}"#, "not json", ""] {
        let problem = gate.repeat(event("/strict", body)).await.problem(400, "key-missing");
        assert!(problem["detail"].as_str().unwrap().contains("/event/id"), "{problem}");
        gate.exchange(event("/loose", body), reply(200, "passed")).await.is_executed(200, "passed");
    }
    for path in ["/strict", "/loose"] {
        let long = format!(r#"{{"event":{{"id":"{}"}}}}"#, "e".repeat(256));
        gate.repeat(event(path, &long)).await.problem(400, "key-invalid");
        gate.repeat(event(path, r#"{"event":{"id":""}}"#)).await.problem(400, "key-invalid");
        let number = event(path, r#"{"event":{"id":7}}"#);
        gate.exchange(number.clone(), reply(200, path)).await.is_executed(200, path);
        gate.repeat(number).await.is_replay_of(200, path);
    }
    assert_eq!(gate.executions(), 7);
}

#[tokio::test]
async fn what_of_a_body_counts_is_the_routes_choice() {
    let config = r#"
        [[route]]
        name = "exact"
        match = "POST /exact"
        fingerprint = "bytes"
        [[route]]
        name = "stamped"
        match = "POST /stamped"
        ignore = ["/sent_at", "/items/0/tried"]
    "#;
    let mut gate = Gate::start(config).await;
    gate.exchange(post("/exact", r#"{"a":1}"#), reply(201, "exact")).await.is_executed(201, "exact");
    gate.repeat(post("/exact", r#"{ "a":1}"#)).await.problem(422, "mismatch");
    gate.repeat(post("/exact", r#"{"a":1}"#)).await.is_replay_of(201, "exact");

    let stamped = |body: &str| post("/stamped", body).key("K2");
    let first = stamped(r#"{"sent_at":1,"items":[{"id":1,"tried":1}]}"#);
    gate.exchange(first, reply(201, "stamped")).await.is_executed(201, "stamped");
    gate.repeat(stamped(r#"{"items":[{"tried":2,"id":1}],"sent_at":2}"#)).await.is_replay_of(201, "stamped");
    gate.repeat(stamped(r#"{"items":[{"id":2,"tried":1}],"sent_at":1}"#)).await.problem(422, "mismatch");
    // A key of the one route is a key of the other: another endpoint, although each compares by rules of its own.
    let problem = gate.repeat(post("/stamped", r#"{"a":1}"#)).await.problem(422, "mismatch");
    assert_eq!(problem["first_request"], "POST /exact");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn routes_are_matched_in_their_order_on_the_path_that_is_meant() {
    let config = r#"
        [[route]]
        name = "first"
        match = "POST /api/payments/*"
        required = true
        [[route]]
        name = "second"
        match = "* /api/**"
    "#;
    let mut gate = Gate::start(config).await;
    let keyless = |path: &str| post(path, "{}").without("idempotency-key");
    for path in ["/api/payments/1", "/x/../api/./payments/1", "/%61pi/p%61yments/1", "/api/payments/%31?a=b"] {
        gate.repeat(keyless(path)).await.problem(400, "key-missing");
    }
    for path in ["/api/payments", "/api/payments/1/2", "/api/Payments/1", "/api%2Fpayments/1", "//api/payments/1"] {
        gate.exchange(keyless(path), reply(201, "passed")).await.is_executed(201, "passed");
    }
    let put = keyless("/api/payments/1").method(Method::PUT);
    gate.exchange(put, reply(201, "passed")).await.is_executed(201, "passed");
    let metric =
        |name: &str| format!("oncegate_requests_total{{route=\"{name}\",outcome=\"rejected\",status=\"400\"}}");
    assert_eq!(gate.server.metric(&metric("first")).await, 4.0);
    let bypassed = r#"oncegate_requests_total{route="second",outcome="bypassed",status="201"}"#;
    assert_eq!(gate.server.metric(bypassed).await, 4.0, "requests without a key are counted");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_leaves_an_unknown_record() {
    let config = r#"
        [[route]]
        name = "late"
        match = "POST /orders"
        upstream_timeout = "200ms"
        [[route]]
        name = "stuck"
        match = "POST /documents"
        idle_timeout = "200ms"
    "#;
    let mut gate = Gate::start(config).await;
    let late = gate.send(post("/orders", "{}"));
    let _never_answered = gate.service.call().await;
    let problem = late.await.unwrap().problem(504, "upstream-timeout");
    assert_eq!(problem["retry"], "operator");
    let problem = gate.repeat(post("/orders", "{}")).await.problem(409, "unknown");
    assert_eq!(problem["reason"], "timeout");

    let stuck = post("/documents", "{}").key("K2");
    let first = gate.send(stuck.clone());
    let (parts, answer) = streamed(200);
    gate.service.call().await.answer(answer);
    parts.send(Ok(Frame::data(vec![b'x'; 100_000].into()))).unwrap();
    assert!(first.await.unwrap().is_cut);
    let problem = gate.conclude(&stuck).await.problem(409, "unknown");
    assert_eq!(problem["reason"], "timeout");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn long_bodies_are_kept_on_disk_and_a_disk_that_fails_executes_nothing() {
    let mut gate = Gate::start_with("", &[("TMPDIR", "/nonexistent")]).await;
    let upload = |bytes: usize| post("/uploads", "").with("content-type", "text/plain").body(vec![b'x'; bytes]);
    let refused = gate.repeat(upload(300 << 10)).await;
    let problem = refused.problem(503, "overloaded");
    assert_eq!((&problem["retry"], refused.header("retry-after")), (&"same-key".into(), Some("1")));
    assert!(gate.records().await.is_empty());
    gate.exchange(upload(200 << 10), reply(201, "short")).await.is_executed(201, "short");
    // What is not guarded is not kept at all.
    let keyless = upload(300 << 10).without("idempotency-key");
    gate.exchange(keyless, reply(201, "streamed")).await.is_executed(201, "streamed");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn a_connection_that_becomes_another_protocol_is_marked_and_not_opened_again() {
    let mut gate = Gate::start("").await;
    gate.service.refuse().await;
    let listener = TcpListener::bind(&gate.service.address).await.unwrap();
    let head = "POST /shell HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer A\r\nIdempotency-Key: K1\r\n";
    let request = format!("{head}Connection: upgrade\r\nUpgrade: shell\r\nContent-Length: 0\r\n\r\n");
    let mut client = TcpStream::connect(&gate.server.address).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut service, _) = listener.accept().await.unwrap();
    let asked = until(&mut service, "\r\n\r\n").await;
    assert!(asked.to_ascii_lowercase().contains("upgrade: shell"), "{asked}");
    service
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: shell\r\n\r\n")
        .await
        .unwrap();
    let switched = until(&mut client, "\r\n\r\n").await;
    assert!(switched.starts_with("HTTP/1.1 101 "), "{switched}");
    client.write_all(b"ls\n").await.unwrap();
    assert_eq!(until(&mut service, "\n").await, "ls\n");
    service.write_all(b"a b\n").await.unwrap();
    assert_eq!(until(&mut client, "\n").await, "a b\n");

    let again = wire(&gate.server.address, request.replace("upgrade\r\n", "close\r\n").as_bytes()).await;
    let problem = again.problem(410, "response-not-kept");
    assert_eq!(problem["first_status"], 101);
}

/// What comes up to this text.
async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let read = timeout(Duration::from_secs(60), stream.read_buf(&mut seen)).await.expect("nothing comes").unwrap();
        assert_ne!(read, 0, "ended before {end:?}: {}", String::from_utf8_lossy(&seen));
    }
    String::from_utf8(seen).unwrap()
}
