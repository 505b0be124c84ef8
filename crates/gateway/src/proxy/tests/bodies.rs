//! Bodies and their trailers, both ways.

use std::time::Duration;

use super::gate::Gate;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_body_of_known_length_keeps_it() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
    let mut backend = gate.backend().await;
    let head = backend.head().await;
    assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (Some("5"), None));
    backend.expect("hello").await;
    backend.send(OK).await;
    let head = client.head().await;
    assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (Some("2"), None));
    client.expect("ok").await;
}

#[tokio::test]
async fn an_empty_body_stays_an_empty_body() {
    let gate = Gate::start().await;
    let (head, _) = gate.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", OK).await;
    assert_eq!(head.get("content-length"), Some("0"));
}

#[tokio::test]
async fn a_chunked_body_stays_chunked_whatever_the_method() {
    for method in ["POST", "GET", "DELETE"] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client
            .send(format!(
                "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
            ))
            .await;
        let mut backend = gate.backend().await;
        let head = backend.head().await;
        assert_eq!((head.get("content-length"), head.get("transfer-encoding")), (None, Some("chunked")), "{method}");
        assert_eq!(backend.chunked().await.0, b"hello");
        backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n").await;
        assert_eq!(client.head().await.get("transfer-encoding"), Some("chunked"));
        assert_eq!(client.chunked().await.0, b"ok");
    }
}

#[tokio::test]
async fn declared_trailers_pass_to_the_upstream() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client
        .send(
            "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n",
        )
        .await;
    let mut backend = gate.backend().await;
    assert_eq!(backend.head().await.get("trailer"), Some("X-Sum"));
    assert_eq!(backend.chunked().await, (b"hi".to_vec(), "x-sum: 7\n".to_owned()));
}

#[tokio::test]
async fn declared_trailers_pass_to_the_client_that_takes_them() {
    let response =
        "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n";
    for (te, trailers) in [("TE: trailers, deflate\r\nConnection: TE\r\n", "x-sum: 7\n"), ("", "")] {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{te}\r\n")).await;
        let mut backend = gate.backend().await;
        let head = backend.head().await;
        let expected = (!te.is_empty()).then_some("trailers");
        assert_eq!(head.get("te"), expected);
        assert_eq!(head.get("connection"), expected.map(|_| "te"));
        backend.send(response).await;
        assert_eq!(client.head().await.get("trailer"), Some("X-Sum"));
        assert_eq!(client.chunked().await, (b"hi".to_vec(), trailers.to_owned()));
    }
}

#[tokio::test]
async fn an_upload_arrives_while_it_is_still_sent() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.expect("one").await;
    client.send("two").await;
    backend.expect("two").await;
}

#[tokio::test]
async fn an_upload_is_held_back_while_the_upstream_does_not_take_it() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    let bytes = 64 * 1024 * 1024;
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")).await;
    let mut backend = gate.backend().await;
    backend.head().await;
    // What the sockets and the proxy take without the backend reading is bounded, far below the whole.
    let part = vec![b'x'; bytes];
    let sending = async {
        client.send_all_or_fail(&part).await;
    };
    let stuck = tokio::time::timeout(Duration::from_millis(500), sending).await;
    assert!(stuck.is_err(), "64 MiB went somewhere");
}

#[tokio::test]
async fn a_large_body_arrives_whole_both_ways() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let mut backend_side = None;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head).await;
    let sending = client.send(&body);
    let receiving = async {
        let mut backend = gate.backend().await;
        backend.head().await;
        let got = backend.bytes(body.len()).await;
        backend_side = Some(backend);
        got
    };
    assert!(tokio::join!(sending, receiving).1 == body);

    let mut backend = backend_side.unwrap();
    let response = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let receiving = async {
        client.head().await;
        client.bytes(body.len()).await
    };
    assert!(tokio::join!(backend.send(&response), receiving).1 == body);
}

#[tokio::test]
async fn both_sides_can_talk_at_once() {
    let gate = Gate::start().await;
    let mut client = gate.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n").await;
    let mut backend = gate.backend().await;
    backend.head().await;
    backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.head().await;
    backend.expect("1\r\na\r\n").await;
    backend.send("1\r\nA\r\n").await;
    client.expect("1\r\nA\r\n").await;
    client.send("1\r\nb\r\n0\r\n\r\n").await;
    backend.expect("1\r\nb\r\n0\r\n\r\n").await;
    backend.send("1\r\nB\r\n0\r\n\r\n").await;
    client.expect("1\r\nB\r\n0\r\n\r\n").await;
}

/// A body in two parts, in each framing: the field, the parts as they are sent, and both as they arrive.
const IN_TWO: [(&str, [&str; 2], &str); 2] = [
    ("Content-Length: 6", ["one", "two"], "onetwo"),
    ("Transfer-Encoding: chunked", ["3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n"], "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
];

#[tokio::test]
async fn an_answer_can_come_before_the_body_has_gone_out() {
    for status in ["202 Accepted", "409 Conflict"] {
        for (framing, [first, second], both) in IN_TWO {
            let gate = Gate::start().await;
            let mut client = gate.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{first}")).await;
            let mut backend = gate.backend().await;
            backend.head().await;
            backend.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")).await;
            assert!(client.head().await.first_line.ends_with(status));
            client.expect("ok").await;
            // The rest still goes where it belongs, and the next request behind it.
            client.send(format!("{second}GET / HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            backend.expect(both).await;
            assert!(gate.next_head(&mut backend).await.first_line.starts_with("GET "), "{framing}");
        }
    }
}

#[tokio::test]
async fn a_refusal_reaches_the_client_whole_when_the_upstream_hangs_up_on_its_body() {
    let bytes = 8 * 1024 * 1024;
    let sized = (format!("Content-Length: {bytes}"), "x".repeat(bytes));
    let chunked = ("Transfer-Encoding: chunked".to_owned(), format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", sized.1));
    for round in 0..20 {
        let gate = Gate::start().await;
        let mut client = gate.client().await;
        let (framing, body) = if round % 2 == 0 { &sized } else { &chunked };
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")).await;
        let refusing = async {
            let mut backend = gate.backend().await;
            backend.head().await;
            let refusal = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\n";
            backend.send([refusal, "too large"].concat()).await;
            // Unread data turns this into a reset.
            drop(backend);
        };
        let (sent, ()) = tokio::join!(client.send_all_or_fail(body.as_bytes()), refusing);
        assert!(sent, "round {round}: the connection was closed on a client that still sent");
        assert_eq!(client.head().await.status(), 413);
        client.expect("too large").await;
    }
}

#[tokio::test]
async fn a_refused_body_is_read_away_and_the_connection_stays_in_step() {
    for status in ["413 Content Too Large", "409 Conflict"] {
        for (framing, [first, second], _) in IN_TWO {
            let gate = Gate::start().await;
            let mut client = gate.client().await;
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{first}")).await;
            let mut backend = gate.backend().await;
            backend.head().await;
            backend.send(format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")).await;
            assert!(client.head().await.first_line.ends_with(status));
            backend.expect(first).await;
            backend.closed().await;
            client.send(format!("{second}GET /next HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert!(gate.backend().await.head().await.first_line.starts_with("GET /next "), "{framing}");
        }
    }
}
