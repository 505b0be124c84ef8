//! C57 to C64: what a replay carries, and what it must not.

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, Method};
use http_body::Frame;
use http_body_util::{BodyExt, Full};

use crate::harness::{Answer, Gate, Reply, post, reply, streamed, wire, with_headers};

/// A reply with any bytes as its body.
fn binary(status: u16, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    reply(status, "").map(|_| body)
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

#[tokio::test]
async fn c57_a_replay_says_where_the_created_object_is() {
    let mut gate = Gate::start("").await;
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let headers = [("location", "/orders/7"), ("etag", r#""v1""#), ("link", "<x>; rel=next"), ("x-request-id", "r1")];
    let created = with_headers(with_headers(reply(201, "created"), &headers), &[("date", old)]);
    gate.exchange(post("/orders", "{}"), created).await.is_executed(201, "created");
    let repeat = gate.repeat(post("/orders", "{}")).await;
    repeat.is_replay_of(201, "created");
    for (name, value) in &headers[..3] {
        assert_eq!(repeat.header(name), Some(*value));
    }
    assert_eq!(repeat.header("x-request-id"), None, "the identity of another exchange");
    assert!(repeat.header("date").is_some_and(|date| date != old), "{repeat:?}");

    for (status, location) in [(303, "/done"), (307, "/v2/orders")] {
        let request = post("/orders", "{}").key(location);
        let moved = with_headers(reply(status, ""), &[("location", location)]);
        gate.exchange(request.clone(), moved).await.is_executed(status, "");
        let repeat = gate.repeat(request).await;
        repeat.is_replay_of(status, "");
        assert_eq!(repeat.header("location"), Some(location));
    }
    assert_eq!(gate.executions(), 3, "a redirect is for the client to follow");
}

#[tokio::test]
async fn c58_no_cookie_and_no_challenge_is_replayed() {
    let mut gate = Gate::start("").await;
    let login = post("/login", "{}");
    let private = [("set-cookie", "sid=1"), ("www-authenticate", "Basic"), ("keep-alive", "timeout=5")];
    let first = gate.exchange(login.clone(), with_headers(reply(200, "in"), &private)).await;
    first.is_executed(200, "in");
    assert_eq!((first.header("set-cookie"), first.header("www-authenticate")), (Some("sid=1"), Some("Basic")));
    let repeat = gate.repeat(login).await;
    repeat.is_replay_of(200, "in");
    for name in private.map(|(name, _)| name).into_iter().chain(["transfer-encoding"]) {
        assert_eq!(repeat.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn c58_a_long_answer_is_delivered_whole_and_then_neither_kept_nor_executed_again() {
    let mut gate = Gate::start("[defaults]\nmax_stored_body = \"256KiB\"\n").await;
    let body = Bytes::from(vec![7; 2 << 20]);
    let first = gate.exchange(post("/exports", "{}"), binary(200, body.clone())).await;
    assert!((first.status, first.is_cut) == (200, false) && first.body == body, "{} bytes", first.body.len());
    let problem = gate.repeat(post("/exports", "{}")).await.problem(410, "response-not-kept");
    assert_eq!(problem["first_status"], 200);
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c59_every_media_type_and_every_byte_survives() {
    let mut gate = Gate::start("").await;
    let csv = "text/csv; charset=windows-1251";
    let every_byte: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let answers = [(Some(csv), vec![0xe0, 0xe1]), (Some("application/pdf"), every_byte), (None, vec![0, 0xff])];
    for (number, (media_type, body)) in answers.into_iter().enumerate() {
        let export = post("/exports", "{}").key(&format!("K{number}"));
        let mut answer = binary(200, body.clone());
        if let Some(media_type) = media_type {
            answer = with_headers(answer, &[("content-type", media_type)]);
        }
        for answer in [gate.exchange(export.clone(), answer).await, gate.repeat(export).await] {
            assert_eq!((answer.status, answer.header("content-type")), (200, media_type));
            assert!(answer.body == body, "{} bytes of {media_type:?}", answer.body.len());
        }
    }
    assert_eq!(gate.executions(), 3);
}

#[tokio::test]
async fn c60_an_answer_without_a_body_is_kept_as_well() {
    let mut gate = Gate::start("").await;
    for (status, length) in [(204, None), (202, None), (200, Some("0"))] {
        let request = post("/parcels", "{}").key(&format!("{status}"));
        let mut empty = reply(status, "");
        if let Some(length) = length {
            empty = with_headers(empty, &[("content-length", length)]);
        }
        gate.exchange(request.clone(), empty).await.is_executed(status, "");
        let repeat = gate.repeat(request).await;
        repeat.is_replay_of(status, "");
        assert_eq!(repeat.header("content-type"), None);
        assert!(status != 204 || repeat.header("content-length").is_none(), "{repeat:?}");
    }
    assert_eq!(gate.executions(), 3);
}

fn gunzipped(body: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(body).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn c61_the_coding_of_a_replay_agrees_with_its_bytes() {
    let mut gate = Gate::start("").await;
    let text = r#"{"rows":[1,2,3]}"#;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    let zipped = encoder.finish().unwrap();
    let report = post("/reports", "{}");
    let coded = [("content-encoding", "gzip"), ("vary", "Accept-Encoding"), ("content-type", "application/json")];
    let first = gate.send(report.clone().with("accept-encoding", "gzip"));
    gate.service.call().await.answer(with_headers(binary(200, zipped.clone()), &coded));
    assert_eq!(first.await.unwrap().body, zipped);
    let repeats = [Some("gzip"), Some("identity"), Some("gzip;q=0, br"), None, Some("gzip")];
    for accepted in repeats {
        let request = accepted.map_or(report.clone(), |accepted| report.clone().with("accept-encoding", accepted));
        let repeat = gate.repeat(request).await;
        assert!(repeat.status == 200 && is_replay(&repeat), "{accepted:?}: {repeat:?}");
        let decoded = match repeat.header("content-encoding") {
            Some("gzip") => gunzipped(&repeat.body),
            Some(coding) => panic!("nobody asked for {coding}"),
            None => repeat.text().to_owned(),
        };
        assert_eq!(decoded, text, "{accepted:?}");
        assert_eq!(repeat.header("vary"), Some("Accept-Encoding"));
        let is_coded = repeat.header("content-encoding").is_some();
        assert!(accepted.is_none() || is_coded == (accepted == Some("gzip")), "{accepted:?}: {repeat:?}");
    }
}

#[tokio::test]
async fn c62_a_replay_has_a_framing_of_its_own_in_every_version_of_http() {
    let mut gate = Gate::start("").await;
    let request = post("/x", "{}");
    let first = gate.send(request.clone());
    let (parts, answer) = streamed(200);
    gate.service.call().await.answer(with_headers(answer, &[("trailer", "x-sum")]));
    parts.send(Ok(Frame::data("chu".into()))).unwrap();
    parts.send(Ok(Frame::data("nked".into()))).unwrap();
    parts.send(Ok(Frame::trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())])))).unwrap();
    drop(parts);
    first.await.unwrap().is_executed(200, "chunked");

    for answer in [gate.repeat(request.clone()).await, gate.send_by_http2(&request).await] {
        answer.is_replay_of(200, "chunked");
        assert_eq!(answer.header("content-length"), Some("7"));
        assert_eq!((answer.header("transfer-encoding"), answer.header("trailer")), (None, None));
    }
    let fields = "Host: test\r\nAuthorization: Bearer A\r\nIdempotency-Key: K1\r\nContent-Type: application/json\r\n";
    let head = |version: &str, more: &str| {
        format!("POST /x HTTP/{version}\r\n{fields}{more}Content-Length: 2\r\n\r\n{{}}").into_bytes()
    };
    wire(&gate.server.address, &head("1.0", "")).await.is_replay_of(200, "chunked");
    // Two on one connection stay in step: the second answer begins where the first one ends.
    let two = [head("1.1", ""), head("1.1", "Connection: close\r\n")].concat();
    let answers = wire(&gate.server.address, &two).await;
    assert!(answers.text().starts_with("chunkedHTTP/1.1 200 OK\r\n"), "{answers:?}");
    assert!(answers.text().ends_with("\r\n\r\nchunked"), "{answers:?}");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c63_only_a_replay_is_marked_as_one_whatever_the_service_sends() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/x", "{}"), reply(201, "created")).await.is_executed(201, "created");
    gate.repeat(post("/x", "{}")).await.is_replay_of(201, "created");
    // A service with replays of its own marks them alike; our replay still has one mark.
    let marked = with_headers(reply(201, "its own"), &[("idempotent-replayed", "true")]);
    let own = gate.exchange(post("/x", "{}").key("K2"), marked).await;
    assert_eq!((own.status, own.text(), own.header("idempotency-completed")), (201, "its own", None));
    let repeat = gate.repeat(post("/x", "{}").key("K2")).await;
    repeat.is_replay_of(201, "its own");
    assert_eq!(repeat.headers.get_all("idempotent-replayed").iter().count(), 1);
    assert!(repeat.header("idempotency-completed").is_some());
}

#[tokio::test]
async fn c64_a_replay_is_the_answer_of_then_and_changes_nothing_now() {
    let mut gate = Gate::start("").await;
    let create = post("/persons", r#"{"name":"John"}"#);
    let lost = gate.send(create.clone());
    let call = gate.service.call().await;
    lost.abort();
    call.answer(reply(200, "John"));
    gate.conclude(&create).await.is_replay_of(200, "John");
    let rename = post("/persons/1", r#"{"name":"Bob"}"#).method(Method::PATCH).key("K2");
    gate.exchange(rename, reply(200, "Bob")).await.is_executed(200, "Bob");
    gate.repeat(create).await.is_replay_of(200, "John");
    assert_eq!(gate.executions(), 2);
}
