//! HTTP/2 with prior knowledge towards the client; the upstream sees HTTP/1.1.

use http::{Request, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::{
    body::{Body, Bytes},
    client::conn::http2::{SendRequest, handshake},
};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::{gate::Gate, wire::soon};

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";

async fn client<B>(gate: &Gate) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let io = TokioIo::new(gate.stream().await);
    let (client, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn requests_by_http2_arrive_as_http_1_1() {
    let gate = Gate::start().await;
    let mut client = client(&gate).await;
    let request = Request::post("http://shop.example/a?b=c")
        .header("cookie", "a=1")
        .header("cookie", "b=2; c=3")
        .body(Full::new(Bytes::from("hi")))
        .unwrap();
    let answer = client.send_request(request);
    let backend = async {
        let mut backend = gate.backend().await;
        let head = backend.head().await;
        assert_eq!(head.first_line, "POST /a?b=c HTTP/1.1");
        assert_eq!(head.get("host"), Some("shop.example"));
        assert_eq!(head.get("cookie"), Some("a=1; b=2; c=3"));
        assert_eq!(head.get("via"), Some("2 oncegate"));
        backend.expect("hi").await;
        backend.send(OK).await;
        backend
    };
    let (answer, _backend) = tokio::join!(answer, backend);
    let answer = answer.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 200));
    assert!(!answer.headers().contains_key("connection"));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
}

#[tokio::test]
async fn streams_do_not_wait_for_each_other_and_end_after_stop() {
    let gate = Gate::start().await;
    let mut client = client::<Empty<Bytes>>(&gate).await;
    let get = |path: &str| Request::get(format!("http://a{path}")).body(Empty::new()).unwrap();
    let first = tokio::spawn(client.send_request(get("/1")));
    let mut slow = gate.backend().await;
    slow.head().await;
    let second = tokio::spawn(client.send_request(get("/2")));
    let mut quick = gate.backend().await;
    quick.head().await;
    quick.send(OK).await;
    assert_eq!(soon("the second answer", second).await.unwrap().unwrap().status(), 200);
    gate.stop();
    slow.send(OK).await;
    let first = soon("the first answer", first).await.unwrap().unwrap();
    assert_eq!(soon("the body", first.into_body().collect()).await.unwrap().to_bytes(), "ok");
    assert_eq!(gate.stopped().await, 0);
}

#[tokio::test]
async fn connect_is_refused() {
    let gate = Gate::start().await;
    let mut client = client::<Empty<Bytes>>(&gate).await;
    let request = Request::connect("db.internal:5432").body(Empty::new()).unwrap();
    let answer = soon("an answer", client.send_request(request)).await.unwrap();
    assert_eq!(answer.status(), 405);
    assert!(gate.backend_is_left_alone().await);
}

/// A client that resets its stream with NO_ERROR, in frames written by hand: no library sends that.
#[tokio::test]
async fn a_body_that_is_reset_without_an_error_never_looks_whole() {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    // :method POST, :scheme http, :path / from the static table, and :authority "a" as a literal.
    const HEADERS: &[u8] = &[0, 0, 6, 1, 0x4, 0, 0, 0, 1, 0x83, 0x86, 0x84, 0x41, 1, b'a'];
    const DATA: &[u8] = &[0, 0, 3, 0, 0, 0, 0, 0, 1, b'o', b'n', b'e'];
    const RST_STREAM: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SETTINGS, HEADERS, DATA].concat()).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.expect("3\r\none\r\n").await;
    client.send(RST_STREAM).await;
    backend.closed().await;
}
