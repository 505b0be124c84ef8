//! `Expect: 100-continue`.

use super::gate::Gate;

const EXPECTING: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn the_upstream_decides_whether_the_body_is_sent() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(EXPECTING).await;
    let mut backend = gate.backend().await;
    assert_eq!(backend.head().await.get("expect"), Some("100-continue"));
    backend.send(CONTINUE).await;
    client.expect(CONTINUE).await;
    client.send("hello").await;
    backend.expect("hello").await;
    backend.send(OK).await;
    assert_eq!(client.head().await.status(), 200);
    client.expect("ok").await;
    // And the connection is still in step.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(gate.next_head(&mut backend).await.first_line.starts_with("GET "));
}

#[tokio::test]
async fn an_upstream_that_refuses_spares_the_client_its_body() {
    for status in ["401 Unauthorized", "200 OK"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(EXPECTING).await;
        let mut backend = gate.backend().await;
        backend.head().await;
        backend.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno")).await;
        // No 100 before it, and nobody knows what the client sends next: a body or a request.
        let head = client.head().await;
        assert!(head.first_line.ends_with(status));
        assert_eq!(head.get("connection"), Some("close"));
        client.expect("no").await;
        client.closed().await;
        backend.closed().await;
    }
}

#[tokio::test]
async fn an_upstream_that_knows_no_expectations_gets_the_body_anyway() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(EXPECTING).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    client.expect(CONTINUE).await;
    client.send("hello").await;
    backend.expect("hello").await;
}

#[tokio::test]
async fn a_refusal_of_ours_comes_without_100() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client
        .send(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: Idempotency-Key\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        )
        .await;
    assert_eq!(client.head().await.status(), 400);
    drop(gate.stopped());
}

#[tokio::test]
async fn an_upstream_out_of_reach_is_said_without_100() {
    let mut client = Gate::orphan().await;
    client.send(EXPECTING).await;
    let head = client.head().await;
    assert_eq!((head.status(), head.get("connection")), (502, Some("close")));
}
