//! Connections of clients: how many, how long, and how they end.

use std::time::Duration;

use super::{gate::Gate, wire::soon};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_under_way_is_answered_after_stop() {
    let gate = Gate::start().await;
    let mut idle = gate.client().await;
    idle.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(OK).await;
    idle.head().await;
    idle.expect("ok").await;

    let mut busy = gate.client().await;
    busy.send(GET).await;
    gate.next_head(&mut backend).await;
    gate.stop();
    idle.closed().await;
    backend.send(OK).await;
    let head = busy.head().await;
    assert_eq!((head.status(), head.get("connection")), (200, Some("close")));
    busy.expect("ok").await;
    busy.closed().await;
    assert_eq!(gate.stopped().await, 0);
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_and_counted() {
    let gate = Gate::with(|setup| setup.accept.drain = Duration::from_millis(50)).await;
    let (mut first, mut second) = (gate.client().await, gate.client().await);
    first.send(GET).await;
    second.send(GET).await;
    let (mut one, mut other) = (gate.backend().await, gate.backend().await);
    one.head().await;
    other.head().await;
    assert_eq!(gate.stopped().await, 2);
    first.closed().await;
    second.closed().await;
    one.closed().await;
    other.closed().await;
}

#[tokio::test]
async fn nothing_is_accepted_after_stop() {
    let gate = Gate::start().await;
    let address = gate.address;
    assert_eq!(gate.stopped().await, 0);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn clients_beyond_the_limit_wait_until_others_leave() {
    let gate = Gate::with(|setup| setup.accept.connections_max = 1).await;
    let mut first = gate.client().await;
    first.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    let mut second = gate.client().await;
    second.send(GET).await;
    backend.send(OK).await;
    first.head().await;
    first.expect("ok").await;
    assert!(gate.backend_is_left_alone().await);
    drop(first);
    gate.next_head(&mut backend).await;
    backend.send(OK).await;
    assert_eq!(second.head().await.status(), 200);
}

#[tokio::test]
async fn clients_that_bring_no_request_are_hung_up_on() {
    // Nothing, part of a head, part of the preface of HTTP/2.
    for start in ["", "GET / HT", "PRI * HT"] {
        let gate = Gate::with(|setup| setup.accept.head_timeout = Duration::from_millis(50)).await;
        let mut client = gate.client().await;
        client.send(start).await;
        client.rest().await;
    }
}

#[tokio::test]
async fn idle_connections_are_hung_up_on() {
    let gate = Gate::with(|setup| setup.accept.head_timeout = Duration::from_millis(50)).await;
    let mut client = gate.client().await;
    client.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    // An answer that takes longer than a head may is no idleness.
    tokio::time::sleep(Duration::from_millis(100)).await;
    backend.send(OK).await;
    client.head().await;
    client.expect("ok").await;
    client.closed().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_hung_up_on() {
    let gate = Gate::with(|setup| setup.accept.idle_timeout = Duration::from_millis(50)).await;
    let mut client = gate.client().await;
    client.send(GET).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    let body = vec![b'x'; 64 * 1024 * 1024];
    backend.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())).await;
    assert!(!soon("the end", backend.send_all_or_fail(&body)).await, "64 MiB went somewhere");
    drop(client);
}

#[tokio::test]
async fn a_tunnel_keeps_its_place_among_the_connections() {
    let gate = Gate::with(|setup| setup.accept.connections_max = 1).await;
    let mut tunnel = gate.client().await;
    tunnel.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").await;
    let mut far_end = gate.backend().await;
    far_end.head().await;
    far_end.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello").await;
    tunnel.head().await;
    tunnel.expect("hello").await;
    let mut second = gate.client().await;
    second.send(GET).await;
    // Bytes that pass after it was sent: whoever accepts has had its turn.
    far_end.send("more").await;
    tunnel.expect("more").await;
    assert!(gate.backend_is_left_alone().await, "it was let in beside the tunnel");
    drop(far_end);
    tunnel.closed().await;
    drop(tunnel);
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send(OK).await;
    assert_eq!(second.head().await.status(), 200);
}
