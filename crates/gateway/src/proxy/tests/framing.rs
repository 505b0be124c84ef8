//! Requests that two servers could read in two ways.

use super::gate::Gate;

#[tokio::test]
async fn requests_whose_framing_is_in_doubt_are_refused() {
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "X: a\r\n folded",
        "X: a\rb",
        "X: a\0b",
    ] {
        let gate = Gate::start().await;
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\nhello");
        let head = gate.refusal(&request).await;
        assert_eq!(head.status(), 400, "{fields:?}");
    }
}

#[tokio::test]
async fn transfer_codings_other_than_chunked_are_not_implemented() {
    for coding in ["gzip, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked"] {
        let gate = Gate::start().await;
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        let head = gate.refusal(&request).await;
        assert_eq!((head.status(), head.get("connection")), (501, Some("close")), "{coding}");
    }
}

/// hyper lets the chunks win, as RFC 9112 6.3 allows, drops the length and ends the connection behind the answer. What
/// matters is that we and the upstream agree on where the request ends, and that nothing behind it is executed.
#[tokio::test]
async fn a_length_beside_chunks_is_dropped_and_the_connection_ends() {
    for fields in
        ["Content-Length: 40\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 40"]
    {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n{smuggled}")).await;
        let mut backend = gate.backend().await;
        let head = backend.head().await;
        assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (None, Some("chunked")));
        backend.expect("0\r\n\r\n").await;
        backend.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!(client.head().await.get("connection"), Some("close"));
        client.closed().await;
        assert!(gate.backend_is_left_alone().await);
        gate.stopped().await;
        backend.closed().await;
    }
}

#[tokio::test]
async fn one_length_said_twice_is_said_once() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello").await;
    let mut backend = gate.backend().await;
    assert_eq!(backend.head().await.get("content-length"), Some("5"));
    backend.expect("hello").await;
}

#[tokio::test]
async fn broken_chunks_end_the_request_on_both_sides() {
    for chunk in ["5;x\r\nhell", "zz\r\nhello", "-1\r\n", "FFFFFFFFFFFFFFFFF\r\nhello", "5\r\nhelloX\r\n0\r\n\r\n"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}")).await;
        client.finish().await;
        let mut backend = gate.backend().await;
        assert!(!backend.rest().await.contains("0\r\n\r\n"), "{chunk:?} looks whole");
    }
}

#[tokio::test]
async fn heads_beyond_the_limits_are_refused() {
    let gate = Gate::start().await;
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    assert_eq!(gate.refusal(&long).await.status(), 431);
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100));
    assert_eq!(gate.refusal(&many).await.status(), 431);
}

#[tokio::test]
async fn pipelined_requests_stay_in_step() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client
        .send(
            "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET /2 HTTP/1.1\r\nHost: a\r\n\r\n\
             POST /3 HTTP/1.1\r\nHost: a\r\nConnection: Cookie\r\nContent-Length: 2\r\n\r\nhi",
        )
        .await;
    let mut backend = gate.backend().await;
    assert_eq!(backend.head().await.first_line, "POST /1 HTTP/1.1");
    backend.expect("hi").await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1").await;
    client.head().await;
    client.expect("1").await;
    assert_eq!(gate.next_head(&mut backend).await.first_line, "GET /2 HTTP/1.1");
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2").await;
    client.head().await;
    client.expect("2").await;
    assert_eq!(client.head().await.status(), 400);
}

/// hyper takes a single LF for the end of a line of a head, as RFC 9112 2.2 allows, and has no switch against it. What
/// matters is that the upstream sees what we saw: each field on a line of its own, ended as usual.
#[tokio::test]
async fn a_bare_lf_ends_a_line_of_a_head_for_the_upstream_too() {
    for request in [
        "POST / HTTP/1.1\nHost: a\nX: y\nContent-Length: 5\n\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 5\r\n\r\nhello",
    ] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(request).await;
        let mut backend = gate.backend().await;
        let head = backend.head().await;
        assert_eq!((head.get("x"), head.get("content-length")), (Some("y"), Some("5")), "{request:?}");
        backend.expect("hello").await;
    }
}

#[tokio::test]
async fn a_bare_lf_ends_no_line_between_chunks() {
    for body in ["5\nhello\n0\n\n", "5;a\nb\r\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).await;
        client.finish().await;
        let mut backend = gate.backend().await;
        assert!(!backend.rest().await.contains("0\r\n\r\n"), "{body:?} looks whole");
    }
}

/// RFC 9112 section 6.3: chunks override a length. A client that went by the length would read the rest as the next answer.
#[tokio::test]
async fn a_response_with_a_length_and_chunks_has_chunks() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend
        .send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n")
        .await;
    let head = client.head().await;
    assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (None, Some("chunked")));
    client.expect("B\r\nhello world\r\n0\r\n\r\n").await;
}
