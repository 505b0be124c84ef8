//! What the client gets when there is no answer, or none that is whole.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use oncegate_core::Backend;
use oncegate_tower::{RequestBody, ResponseBody, Route, UpstreamErrorKind};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    super::{AcceptSettings, Settings, Upstream, accept, client_body::ClientBody, upstream::UpstreamBody},
    gate::Gate,
    wire::{Wire, soon},
};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async fn problem(client: &mut Wire) -> (u16, String) {
    let head = client.head().await;
    assert_eq!(head.get("content-type"), Some("application/problem+json"));
    let length = head.get("content-length").unwrap().parse().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&client.bytes(length).await).unwrap();
    let name = document["type"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    (head.status(), name)
}

/// Sends a request to a backend that does this with it.
async fn failing(gate: &Gate, backend: impl AsyncFnOnce(Wire)) -> (u16, String) {
    let mut client = gate.client().await;
    client.send(POST).await;
    let mut wire = gate.backend().await;
    wire.head().await;
    backend(wire).await;
    problem(&mut client).await
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_said_to_have_got_nothing() {
    let mut client = Gate::orphan().await;
    client.send(POST).await;
    assert_eq!(problem(&mut client).await, (502, "upstream-unreachable".to_owned()));
    // The body was read away, so the connection goes on.
    client.send(POST).await;
    assert_eq!(problem(&mut client).await.0, 502);
}

#[tokio::test]
async fn an_answer_that_ends_within_its_head_is_lost() {
    let gate = Gate::start().await;
    let lost = (502, "upstream-failed".to_owned());
    assert_eq!(failing(&gate, async |wire| drop(wire)).await, lost);
    assert_eq!(failing(&gate, async |wire| wire.reset()).await, lost);
    let cut = async |mut wire: Wire| wire.send("HTTP/1.1 201 Cre").await;
    assert_eq!(failing(&gate, cut).await, lost);
    let nonsense = async |mut wire: Wire| wire.send("220 mail.example ESMTP\r\n\r\n").await;
    assert_eq!(failing(&gate, nonsense).await, lost);
    let coded = async |mut wire: Wire| wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").await;
    assert_eq!(failing(&gate, coded).await, lost);
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_in_time_is_hung_up_on() {
    let gate = Gate::with(|setup| setup.hurry()).await;
    let mut client = gate.client().await;
    client.send(POST).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    assert_eq!(problem(&mut client).await, (504, "upstream-timeout".to_owned()));
    backend.expect("hi").await;
    backend.closed().await;
}

#[tokio::test]
async fn the_timeouts_of_the_route_hold_where_there_is_one() {
    let mut route = Route::gateway("slow", Backend::Plain);
    route.upstream_timeout = Duration::from_millis(50);
    let route = Arc::new(route);
    let backend = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let upstream = format!("http://{}", backend.local_addr().unwrap());
    let service = Upstream::new(&upstream.parse().unwrap(), Settings::default())
        .map_request(move |request: Request<ClientBody>| request.map(|body| RequestBody::passed(body).on(&route)))
        .map_response(|response: Response<UpstreamBody>| response.map(ResponseBody::passed));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let accepting = tokio::spawn(accept(listener, service, AcceptSettings::default(), stop.clone()));
    let mut client = Wire::new(tokio::net::TcpStream::connect(address).await.unwrap());
    client.send(POST).await;
    assert_eq!(problem(&mut client).await.0, 504);
    stop.cancel();
    drop(client);
    accepting.await.unwrap();
}

#[tokio::test]
async fn an_upload_that_moves_is_waited_for() {
    let gate = Gate::with(|setup| setup.hurry()).await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.expect("one").await;
    // Twice the time that the answer may take, and nobody is late: the client has not sent everything yet.
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.send("two").await;
    backend.expect("two").await;
    backend.send(OK).await;
    assert_eq!(client.head().await.status(), 200);
}

#[tokio::test]
async fn an_upload_that_the_upstream_does_not_take_is_given_up() {
    let gate = Gate::with(|setup| {
        setup.hurry();
        setup.upstream.idle_timeout = Duration::from_millis(300);
    })
    .await;
    let mut client = gate.client().await;
    let body = vec![b'x'; 32 * 1024 * 1024];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len())).await;
    let (sent, backend) = tokio::join!(client.send_all_or_fail(&body), gate.backend());
    assert!(sent, "the rest was not read away");
    assert_eq!(problem(&mut client).await, (504, "upstream-timeout".to_owned()));
    drop(backend);
}

#[tokio::test]
async fn a_body_that_is_cut_is_seen_to_be_cut() {
    for (framing, sent) in [("Content-Length: 1000", "some"), ("Transfer-Encoding: chunked", "4\r\nsome\r\n")] {
        for is_reset in [false, true] {
            let gate = Gate::start().await;
            let mut client = gate.client().await;
            client.send(POST).await;
            let mut backend = gate.backend().await;
            backend.head().await;
            backend.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{sent}")).await;
            let head = client.head().await;
            client.expect(sent).await;
            if is_reset {
                backend.reset()
            } else {
                drop(backend)
            };
            assert_eq!(client.rest().await, "", "{framing}");
            assert!(head.get("content-length") == Some("1000") || head.get("transfer-encoding").is_some());
        }
    }
}

#[tokio::test]
async fn a_body_that_stops_is_cut() {
    let gate = Gate::with(|setup| setup.hurry()).await;
    let mut client = gate.client().await;
    client.send(POST).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome").await;
    client.head().await;
    client.expect("some").await;
    client.closed().await;
    backend.expect("hi").await;
    backend.closed().await;
}

#[tokio::test]
async fn a_half_received_body_never_looks_whole_to_the_upstream() {
    for (framing, sent) in [("Content-Length: 6", "one"), ("Transfer-Encoding: chunked", "3\r\none\r\n")] {
        for is_reset in [false, true] {
            let gate = Gate::start().await;
            let mut client = gate.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{sent}")).await;
            let mut backend = gate.backend().await;
            backend.head().await;
            backend.expect(sent).await;
            if is_reset {
                client.reset()
            } else {
                drop(client)
            };
            assert_eq!(backend.rest().await, "", "{framing}");
        }
    }
}

#[tokio::test]
async fn a_client_that_stops_within_its_body_gets_408() {
    let gate = Gate::with(|setup| setup.accept.idle_timeout = Duration::from_millis(50)).await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.expect("one").await;
    backend.closed().await;
    let head = client.head().await;
    assert_eq!((head.status(), head.get("connection")), (408, Some("close")));
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_unguarded_request() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send(POST).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.expect("hi").await;
    drop(client);
    backend.closed().await;
}

/// Fact: a server that reads a request and hangs up may have executed it. Sending it again is the client's to decide.
#[tokio::test]
async fn a_request_on_a_reused_connection_is_sent_once() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    let mut backend = None;
    for _ in 0..50 {
        client.send(POST).await;
        let mut wire = match backend.take() {
            None => gate.backend().await,
            Some(wire) => wire,
        };
        wire.head().await;
        wire.expect("hi").await;
        wire.send(OK).await;
        client.head().await;
        client.expect("ok").await;

        client.send(POST).await;
        gate.next_head(&mut wire).await;
        wire.expect("hi").await;
        drop(wire);
        assert_eq!(problem(&mut client).await, (502, "upstream-failed".to_owned()));
        assert!(gate.backend_is_left_alone().await, "it was sent again");
    }
}

#[tokio::test]
async fn errors_say_how_far_the_request_got() {
    let unreachable = Upstream::new(&"http://127.0.0.1:1".parse().unwrap(), Settings::default());
    let request = || Request::post("/").body(RequestBody::kept("hi".into(), None)).unwrap();
    let error = soon("an error", unreachable.oneshot(request())).await.map(|_| StatusCode::OK).unwrap_err();
    assert_eq!(error.kind(), UpstreamErrorKind::Unreachable);

    let unresolved = Upstream::new(&"http://no-such-host.invalid".parse().unwrap(), Settings::default());
    let error = soon("an error", unresolved.oneshot(request())).await.map(|_| StatusCode::OK).unwrap_err();
    assert_eq!(error.kind(), UpstreamErrorKind::Unreachable);
}
