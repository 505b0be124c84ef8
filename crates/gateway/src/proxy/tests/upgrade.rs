//! Connections that switch to another protocol.

use super::gate::Gate;

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

#[tokio::test]
async fn bytes_pass_both_ways_after_the_switch() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(UPGRADE).await;
    let mut backend = gate.backend().await;
    let head = backend.head().await;
    assert_eq!((head.get("connection"), head.get("upgrade")), (Some("upgrade"), Some("websocket")));
    assert_eq!(head.get("sec-websocket-key"), Some("k"));
    // The first bytes of the new protocol may come together with the switch.
    backend.send([SWITCHING, "\0welcome"].concat()).await;
    let head = client.head().await;
    assert_eq!(head.status(), 101);
    assert_eq!((head.get("connection"), head.get("upgrade")), (Some("upgrade"), Some("websocket")));
    assert_eq!(head.get("sec-websocket-accept"), Some("x"));
    client.expect("\0welcome").await;
    client.send("\u{1}ping").await;
    backend.expect("\u{1}ping").await;
    backend.send("\u{2}pong").await;
    client.expect("\u{2}pong").await;
    // One side may end before the other.
    client.finish().await;
    backend.closed().await;
    backend.send("bye").await;
    drop(backend);
    client.expect("bye").await;
    client.closed().await;
}

#[tokio::test]
async fn an_upstream_may_decline() {
    let gate = Gate::start().await;
    let (_, head) = gate.exchange(UPGRADE, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(head.status(), 403);
    let required =
        "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n";
    let (_, head) = gate.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n", required).await;
    assert_eq!((head.get("connection"), head.get("upgrade")), (Some("upgrade"), Some("websocket")));
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_a_failure() {
    let gate = Gate::start().await;
    let (_, head) = gate.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n", SWITCHING).await;
    assert_eq!(head.status(), 502);
}

#[tokio::test]
async fn http2_cannot_be_smuggled_in_by_an_upgrade() {
    for protocol in ["h2c", "websocket, H2C", "HTTP/2.0"] {
        let gate = Gate::start().await;
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: x\r\n\r\n"
        );
        let (head, _) = gate.exchange(&request, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!((head.get("connection"), head.get("upgrade"), head.get("http2-settings")), (None, None, None));
    }
}

#[tokio::test]
async fn tunnels_are_counted_and_can_be_cut() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(UPGRADE).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(SWITCHING).await;
    client.head().await;
    client.send("ping").await;
    backend.expect("ping").await;
    let tunnels = gate.upstream.tunnels().clone();
    // It is no connection that the accept loop waits for.
    assert_eq!(gate.stopped().await, 0);
    backend.send("pong").await;
    client.expect("pong").await;
    assert_eq!(tunnels.cut().await, 1);
    client.closed().await;
    backend.closed().await;
}
