//! A response comes back as it was stored, byte for byte.

use bytes::Bytes;

use super::{
    Case,
    trial::{Trial, repeat, request},
};
use crate::{StoredResponse, Written};

pub(super) const CASES: &[Case] = cases![
    every_byte_survives_in_headers_and_body,
    repeated_headers_keep_their_order,
    an_empty_body_is_not_a_body_that_was_not_kept,
    a_response_without_headers_survives,
    every_status_survives,
    a_body_of_a_mebibyte_survives,
    a_body_that_looks_like_text_is_not_rewritten,
];

async fn every_byte_survives_in_headers_and_body(trial: Trial) {
    let bytes = Bytes::from_iter(0..=255_u8);
    let headers = vec![("x-bytes".to_owned(), bytes.clone()), ("x-empty".to_owned(), Bytes::new())];
    assert_survives(&trial, &[StoredResponse { status: 200, headers, body: Some(bytes) }]).await;
}

async fn repeated_headers_keep_their_order(trial: Trial) {
    let header = |name: &str, value: &'static str| (name.to_owned(), Bytes::from_static(value.as_bytes()));
    let headers = vec![
        header("link", "<b>; rel=\"next\""),
        header("vary", "accept"),
        header("link", "<a>"),
        header("etag", "\"x\""),
        header("link", "<b>; rel=\"next\""),
    ];
    assert_survives(&trial, &[StoredResponse { status: 200, headers, body: None }]).await;
}

async fn an_empty_body_is_not_a_body_that_was_not_kept(trial: Trial) {
    let with = |body| StoredResponse { status: 204, headers: Vec::new(), body };
    assert_survives(&trial, &[with(Some(Bytes::new())), with(None)]).await;
}

async fn a_response_without_headers_survives(trial: Trial) {
    assert_survives(&trial, &[StoredResponse { status: 200, headers: Vec::new(), body: Some("x".into()) }]).await;
}

async fn every_status_survives(trial: Trial) {
    let with = |status| StoredResponse { status, headers: Vec::new(), body: Some(Bytes::new()) };
    assert_survives(&trial, &[200, 201, 304, 404, 422, 451, 500, 599, 999].map(with)).await;
}

async fn a_body_of_a_mebibyte_survives(trial: Trial) {
    // A period of 251 bytes does not divide any page or buffer size, so that a chunk that was lost
    // or swapped shows.
    let body: Bytes = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    assert_survives(&trial, &[StoredResponse { status: 200, headers: Vec::new(), body: Some(body) }]).await;
}

async fn a_body_that_looks_like_text_is_not_rewritten(trial: Trial) {
    let with = |body: &'static [u8]| StoredResponse { status: 200, headers: Vec::new(), body: Some(body.into()) };
    let bodies = [&b"{\"b\": 1, \"a\": 1.0}\r\n"[..], b"\xef\xbb\xbf{}", b"\0", b"1e400", b"x'00'", b"\\x00", b" "];
    assert_survives(&trial, &bodies.map(with)).await;
}

async fn assert_survives(trial: &Trial, responses: &[StoredResponse]) {
    for (number, response) in responses.iter().enumerate() {
        let request = request(&format!("k{number}"));
        let lease = trial.acquire(&request).await;
        assert_eq!(trial.complete(&lease, response).await, Written::Done);
        let replayed = trial.replay(&repeat(&request)).await.response;
        // Not `assert_eq`, which would print a mebibyte.
        assert!(*replayed == *response, "stored {}, replayed {}", summary(response), summary(&replayed));
        let (_, read) = trial.get(lease.record).await.expect("completed just now");
        let read = read.expect("a completed record is read with its response");
        assert!(read == *response, "stored {}, read {}", summary(response), summary(&read));
        let elsewhere = trial.another().await.replay(&repeat(&request)).await.response;
        assert!(*elsewhere == *response, "stored {}, replayed elsewhere {}", summary(response), summary(&elsewhere));
    }
}

fn summary(response: &StoredResponse) -> String {
    let StoredResponse { status, headers, body } = response;
    let start = body.as_ref().map(|body| body.slice(..body.len().min(300)));
    format!("{status} {headers:?}, {:?} bytes: {start:?}", body.as_ref().map(Bytes::len))
}
