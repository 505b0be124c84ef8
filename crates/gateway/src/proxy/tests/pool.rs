//! Which connection to the backend a request gets.

use std::time::Duration;

use super::{gate::Gate, wire::Wire};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
const EMPTY: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// One request of a client of its own, answered on `backend`.
async fn exchange(gate: &Gate, backend: &mut Wire, answer: &str) {
    let mut client = gate.client().await;
    client.send(GET).await;
    backend.head().await;
    backend.send(answer).await;
    client.head().await;
    match answer {
        OK => client.expect("ok").await,
        CHUNKED => client.expect("2\r\nok\r\n0\r\n\r\n").await,
        _ => {}
    }
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let gate = Gate::start().await;
    let mut first = gate.client().await;
    first.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(OK).await;
    first.head().await;
    first.expect("ok").await;
    for answer in [OK, CHUNKED, EMPTY, OK] {
        exchange(&gate, &mut backend, answer).await;
    }
    assert!(gate.backend_is_left_alone().await, "the idle connection was not used");
}

#[tokio::test]
async fn a_connection_serves_one_request_at_a_time() {
    let gate = Gate::start().await;
    let (mut one, mut other) = (gate.client().await, gate.client().await);
    one.send(GET).await;
    let mut first = gate.backend().await;
    first.head().await;
    // Its head alone does not make it free.
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no").await;
    one.head().await;
    other.send(GET).await;
    let mut second = gate.backend().await;
    second.head().await;
    second.send(OK).await;
    other.head().await;
    other.expect("ok").await;
    first.send("k").await;
    one.expect("ok").await;
}

#[tokio::test]
async fn a_connection_whose_request_is_still_being_sent_serves_no_other() {
    let gate = Gate::start().await;
    let (mut client, mut other) = (gate.client().await, gate.client().await);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(OK).await;
    client.head().await;
    client.expect("ok").await;
    other.send(GET).await;
    assert!(gate.backend().await.head().await.first_line.starts_with("GET "));
    client.send("two").await;
    backend.expect("onetwo").await;
}

#[tokio::test]
async fn a_connection_that_the_backend_closes_serves_no_other() {
    for answer in ["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.0 200 OK\r\n\r\n"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(GET).await;
        let mut backend = gate.backend().await;
        backend.head().await;
        backend.send(answer).await;
        backend.finish().await;
        client.head().await;
        // Nobody gets an error for it, and the request is sent once.
        let mut backend = {
            let mut client = gate.client().await;
            client.send(GET).await;
            let mut backend = gate.backend().await;
            backend.head().await;
            backend.send(OK).await;
            client.head().await;
            backend
        };
        assert!(gate.backend_is_left_alone().await);
        exchange(&gate, &mut backend, OK).await;
    }
}

#[tokio::test]
async fn a_connection_that_closed_while_idle_costs_nobody_an_error() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    for _ in 0..20 {
        client.send(GET).await;
        let mut backend = gate.backend().await;
        backend.head().await;
        backend.send(OK).await;
        assert_eq!(client.head().await.status(), 200);
        client.expect("ok").await;
        backend.finish().await;
        backend.closed().await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_in_time_although_nobody_asks() {
    let gate = Gate::with(|setup| setup.upstream.idle_connection = Duration::from_millis(20)).await;
    let mut client = gate.client().await;
    client.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(OK).await;
    client.head().await;
    backend.closed().await;
}
