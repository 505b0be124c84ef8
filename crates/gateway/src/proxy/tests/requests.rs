//! What becomes of request heads.

use http::HeaderName;
use oncegate_core::Backend;
use oncegate_tower::{
    Route, Routes,
    route::{KeySource, ScopePart},
};

use super::{super::ProtectedHeaders, gate::Gate, wire::Head};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";

/// How this request arrives at the backend.
async fn arrived(request: &str) -> Head {
    Gate::start().await.exchange(request, CREATED).await.0
}

#[tokio::test]
async fn fields_of_one_hop_end_here() {
    let head = arrived(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nConnection: x-other\r\nX-Mine: 1\r\nX-Other: 2\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nUpgrade: websocket\r\nTE: gzip\r\nX-Kept: 3\r\n\
         Proxy-Authorization: Basic eA==\r\n\r\n",
    )
    .await;
    let expected =
        ["host", "proxy-authorization", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-kept"];
    let mut names = head.names();
    names.sort_unstable();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_field_that_others_rely_on_cannot_be_named_away() {
    let gate = Gate::start().await;
    for name in [
        "Idempotency-Key",
        "authorization",
        "Host",
        "Content-Length",
        "Cookie",
        "X-Forwarded-For",
        "X-FORWARDED-anything",
        "Forwarded",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close, {name}\r\nContent-Length: 0\r\n\r\n");
        let head = gate.refusal(&request).await;
        assert_eq!(head.status(), 400, "{name}");
        assert_eq!(head.get("content-type"), Some("application/problem+json"));
        assert_eq!(head.get("connection"), Some("close"));
    }
}

#[tokio::test]
async fn key_and_scope_headers_of_the_routes_cannot_be_named_away_either() {
    let mut route = Route::gateway("orders", Backend::Plain);
    route.key = KeySource::Header(HeaderName::from_static("paypal-request-id"));
    route.scope = vec![ScopePart::Header(HeaderName::from_static("x-tenant"))];
    let protected = ProtectedHeaders::default();
    let gate = Gate::with(|setup| setup.accept.protected = protected.clone()).await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nConnection: X-Tenant\r\nX-Tenant: 1\r\nContent-Length: 0\r\n\r\n";
    let (head, _) = gate.exchange(request, CREATED).await;
    assert_eq!(head.get("x-tenant"), None);

    // Taken over by connections and clones that exist already.
    protected.replace(&Routes::all(route));
    assert_eq!(gate.refusal(request).await.status(), 400);
    assert_eq!(gate.refusal(&request.replace("X-Tenant", "PayPal-Request-Id")).await.status(), 400);
}

#[tokio::test]
async fn the_client_is_appended_to_those_it_came_by() {
    let head = arrived("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n").await;
    assert_eq!(head.get("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(head.get("x-forwarded-proto"), Some("http"));
    assert_eq!(head.get("x-forwarded-host"), Some("shop.example"));

    let head = arrived(
        "GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nX-Forwarded-For: 10.0.0.3\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\nVia: 1.1 edge\r\n\r\n",
    )
    .await;
    assert_eq!(head.get("x-forwarded-for"), Some("10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1"));
    assert_eq!(head.get("x-forwarded-proto"), Some("https"));
    assert_eq!(head.get("x-forwarded-host"), Some("shop.example"));
    assert_eq!(head.all("via"), ["1.1 edge", "1.1 oncegate"]);
}

#[tokio::test]
async fn target_and_fields_arrive_byte_for_byte() {
    let head = arrived(
        "REPORT /a//b/./../%2F%zz;x?q=%2F&&y=[1]&q=%2f HTTP/1.1\r\nHost: Shop.Example:8443\r\nAccept: b\r\nX: 2\r\n\
         Accept: a\r\nCookie: b=2; a=1\r\nDate: yesterday\r\nX-Empty: \r\nAccept: c;q=0.1, d\r\n\r\n",
    )
    .await;
    assert_eq!(head.first_line, "REPORT /a//b/./../%2F%zz;x?q=%2F&&y=[1]&q=%2f HTTP/1.1");
    assert_eq!(head.get("host"), Some("Shop.Example:8443"));
    assert_eq!(head.all("accept"), ["b", "a", "c;q=0.1, d"]);
    assert_eq!(head.get("cookie"), Some("b=2; a=1"));
    assert_eq!(head.get("date"), Some("yesterday"));
    assert_eq!(head.get("x-empty"), Some(""));
}

#[tokio::test]
async fn the_base_of_the_upstream_stands_before_the_path() {
    let gate = Gate::with(|setup| setup.base = "/shop/").await;
    let (head, _) = gate.exchange("GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n", CREATED).await;
    assert_eq!(head.first_line, "GET /shop/a?b=c HTTP/1.1");
}

#[tokio::test]
async fn the_target_names_the_host_where_it_can() {
    let head = arrived("GET http://me@shop.example:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n").await;
    assert_eq!(head.first_line, "GET /a?b HTTP/1.1");
    assert_eq!(head.get("host"), Some("shop.example:81"));
    assert_eq!(head.get("x-forwarded-host"), Some("shop.example:81"));

    let head = arrived("GET http://shop.example?b HTTP/1.1\r\nHost: other\r\n\r\n").await;
    assert_eq!(head.first_line, "GET /?b HTTP/1.1");
}

#[tokio::test]
async fn the_asterisk_target_arrives() {
    let head = arrived("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(head.first_line, "OPTIONS * HTTP/1.1");
}

#[tokio::test]
async fn http_1_1_needs_exactly_one_host() {
    let gate = Gate::start().await;
    assert_eq!(gate.refusal("GET / HTTP/1.1\r\nX: y\r\n\r\n").await.status(), 400);
    assert_eq!(gate.refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n").await.status(), 400);
}

#[tokio::test]
async fn http_1_0_without_host_gets_the_name_of_the_upstream() {
    let gate = Gate::start().await;
    let (head, answer) = gate.exchange("GET / HTTP/1.0\r\n\r\n", CREATED).await;
    assert_eq!(head.first_line, "GET / HTTP/1.1");
    assert!(head.get("host").unwrap().starts_with("127.0.0.1:"));
    assert_eq!(head.get("via"), Some("1.0 oncegate"));
    assert_eq!(answer.first_line, "HTTP/1.0 201 Created");
}

#[tokio::test]
async fn connect_is_refused() {
    let gate = Gate::start().await;
    let head = gate.refusal("CONNECT db.internal:5432 HTTP/1.1\r\nHost: db.internal:5432\r\n\r\n").await;
    assert_eq!(head.status(), 405);
    assert!(head.get("allow").is_some());
}

#[tokio::test]
async fn forwards_are_counted_and_end_here_at_zero() {
    let head = arrived("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 2\r\n\r\n").await;
    assert_eq!(head.get("max-forwards"), Some("1"));
    let head = arrived("GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n").await;
    assert_eq!(head.get("max-forwards"), Some("0"));
    let gate = Gate::start().await;
    assert_eq!(gate.refusal("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n").await.status(), 204);
    assert_eq!(gate.refusal("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n").await.status(), 405);
}
