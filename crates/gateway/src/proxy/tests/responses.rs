//! What becomes of response heads.

use super::{
    gate::Gate,
    wire::{Head, soon},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";

/// How this response arrives at the client that sent this request.
async fn answer(request: &str, response: &str) -> Head {
    Gate::start().await.exchange(request, response).await.1
}

#[tokio::test]
async fn fields_of_one_hop_end_here() {
    let head = answer(
        GET,
        "HTTP/1.1 200 OK\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
         Proxy-Connection: close\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nX-Kept: 2\r\nDate: d\r\n\
         Content-Length: 0\r\n\r\n",
    )
    .await;
    let mut names = head.names();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date", "proxy-authenticate", "x-kept"]);
}

#[tokio::test]
async fn everything_else_arrives_in_its_order_with_its_repetitions() {
    let head = answer(
        GET,
        "HTTP/1.1 299 All Well Here\r\nSet-Cookie: b=2; Path=/\r\nServer: s\r\nSet-Cookie: a=1, x\r\nDate: d\r\n\
         Connection: keep-alive\r\nContent-Length: 0\r\nSet-Cookie: b=3\r\nVary: x\r\nVary: a\r\n\r\n",
    )
    .await;
    assert_eq!(head.first_line, "HTTP/1.1 299 All Well Here");
    assert_eq!(head.all("set-cookie"), ["b=2; Path=/", "a=1, x", "b=3"]);
    assert_eq!(head.all("vary"), ["x", "a"]);
    assert_eq!(head.get("date"), Some("d"));
    assert_eq!(head.get("server"), Some("s"));
    assert_eq!(head.get("via"), None);
}

#[tokio::test]
async fn redirects_are_the_clients_to_follow() {
    let head =
        answer(GET, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2/orders\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(head.status(), 307);
    assert_eq!(head.get("location"), Some("/v2/orders"));
}

#[tokio::test]
async fn the_answer_to_head_keeps_the_length_of_what_get_would_bring() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send([HEAD, GET].concat()).await;
    let mut backend = gate.backend().await;
    assert!(backend.head().await.first_line.starts_with("HEAD / "));
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
    assert_eq!(client.head().await.get("content-length"), Some("5"));
    // No body is waited for: both connections are in step.
    assert!(backend.head().await.first_line.starts_with("GET / "));
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!(client.head().await.get("content-length"), Some("5"));
    client.expect("hello").await;
}

#[tokio::test]
async fn the_answer_to_head_gets_no_length_that_is_not_known() {
    let head = answer(HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert_eq!(head.get("content-length"), None);
}

#[tokio::test]
async fn answers_without_a_body_leave_the_connection_in_step() {
    for status in ["204 No Content", "304 Not Modified"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send([GET, GET].concat()).await;
        let mut backend = gate.backend().await;
        backend.head().await;
        backend.send(format!("HTTP/1.1 {status}\r\nETag: \"x\"\r\n\r\n")).await;
        let head = client.head().await;
        assert_eq!(head.first_line, format!("HTTP/1.1 {status}"));
        assert_eq!(head.get("etag"), Some("\"x\""));
        assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (None, None));
        backend.head().await;
        backend.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        client.head().await;
        client.expect("ok").await;
    }
}

#[tokio::test]
async fn other_informational_answers_end_here() {
    let gate = Gate::start().await;
    let informed = "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
                    HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    let (_, head) = gate.exchange(GET, informed).await;
    assert_eq!(head.status(), 201);
    assert_eq!(head.get("link"), None);
}

#[tokio::test]
async fn an_http_1_0_upstream_is_served_on_in_http_1_1() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send("HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
    drop(backend);
    let head = client.head().await;
    assert_eq!(head.first_line, "HTTP/1.1 200 OK");
    assert_eq!(head.get("transfer-encoding"), Some("chunked"));
    assert_eq!(client.chunked().await.0, b"until the end");
}

#[tokio::test]
async fn partial_content_passes() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\nIf-Range: \"x\"\r\n\r\n").await;
    let mut backend = gate.backend().await;
    let head = backend.head().await;
    assert_eq!((head.get("range"), head.get("if-range")), (Some("bytes=1-2"), Some("\"x\"")));
    backend.send("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/5\r\nContent-Length: 2\r\n\r\nel").await;
    let head = client.head().await;
    assert_eq!((head.status(), head.get("content-range")), (206, Some("bytes 1-2/5")));
    client.expect("el").await;
}

#[tokio::test]
async fn events_arrive_one_by_one() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
    assert_eq!(client.head().await.get("content-type"), Some("text/event-stream"));
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        backend.send(event).await;
        // The next event is sent only after this one has arrived.
        soon("an event", client.expect(&format!("9\r\n{event}\r\n"))).await;
    }
    drop(backend);
    client.expect("0\r\n\r\n").await;
}
