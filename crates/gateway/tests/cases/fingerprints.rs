//! C20 to C30: what is the same request, and what is not.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use oncegate_core::{
    Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Policy, RecordId, Store, StoredResponse, Written,
};

use crate::harness::{Gate, Sent, post, reply, wire};

/// Executes `first` and repeats its key with `second`: true if that is the same request, false if another one.
async fn is_same(gate: &mut Gate, key: &str, first: Sent, second: Sent) -> bool {
    gate.exchange(first.key(key), reply(201, key)).await.is_executed(201, key);
    let answer = gate.repeat(second.key(key)).await;
    if answer.status == 201 {
        answer.is_replay_of(201, key);
        return true;
    }
    answer.problem(422, "mismatch");
    false
}

#[tokio::test]
async fn c20_another_body_under_the_key_is_422_and_shows_nothing_of_the_first() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/orders", r#"{"qty":1234567}"#), reply(201, "ordered")).await;
    let refused = gate.repeat(post("/orders", r#"{"qty":2}"#)).await;
    let problem = refused.problem(422, "mismatch");
    assert_eq!(problem["retry"], "new-key");
    assert_eq!(problem["type"], "/.well-known/idempotency/problems/mismatch");
    assert!(!refused.text().contains("1234567") && !refused.text().contains("ordered"), "{problem}");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c21_members_in_another_order_are_the_same_request_and_elements_are_not() {
    let mut gate = Gate::start("").await;
    let first = post("/orders", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
    let moved_members = post("/orders", r#"{ "b" : { "d":null, "c":[1,2] }, "a":1 }"#);
    let moved_elements = post("/orders", r#"{"a":1,"b":{"c":[2,1],"d":null}}"#);
    assert!(is_same(&mut gate, "K1", first, moved_members).await);
    gate.repeat(moved_elements).await.problem(422, "mismatch");
}

#[tokio::test]
async fn c22_numbers_that_differ_never_collapse() {
    let mut gate = Gate::start("").await;
    let pairs = [
        (r#"{"minor":9007199254740992}"#, r#"{"minor":9007199254740993}"#),
        (r#"{"9007199254740992":1,"9007199254740993":2}"#, r#"{"9007199254740992":1}"#),
        (r#"{"amount":0.1}"#, r#"{"amount":0.10000000000000001}"#),
        (r#"{"amount":-0}"#, r#"{"amount":0}"#),
        (r#"{"amount":1e400}"#, r#"{"amount":1e401}"#),
    ];
    for (number, (first, second)) in pairs.into_iter().enumerate() {
        let key = format!("K{number}");
        assert!(!is_same(&mut gate, &key, post("/t", first), post("/t", second)).await, "{first} and {second}");
    }
}

/// An upload in two parts.
fn upload(boundary: &str, parts: [(&str, &[u8]); 2]) -> Sent {
    let mut body = Vec::new();
    for (name, content) in parts {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend([head.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    post("/files", "").with("content-type", format!("multipart/form-data; boundary={boundary}")).body(body)
}

#[tokio::test]
async fn c23_an_upload_is_compared_by_its_parts_and_not_by_its_boundary() {
    let mut gate = Gate::start("").await;
    // Long enough to be spooled.
    let file = vec![7; 1 << 20];
    let mut other_file = file.clone();
    other_file[1 << 19] = 8;
    let meta = ("meta", &br#"{"n":1}"#[..]);
    let parts = [meta, ("file\"; filename=\"a.bin", &file[..])];
    assert!(is_same(&mut gate, "K1", upload("AAA", parts), upload("BBB", parts)).await);
    for other in [
        [meta, ("file\"; filename=\"a.bin", &other_file[..])],
        [meta, ("file\"; filename=\"b.bin", &file[..])],
        [parts[1], parts[0]],
    ] {
        gate.repeat(upload("CCC", other)).await.problem(422, "mismatch");
    }
    assert_eq!(gate.executions(), 1);
}

fn gzipped(level: Compression, content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn c24_a_compressed_body_is_compared_decoded_and_forwarded_as_it_came() {
    let mut gate = Gate::start("[defaults]\nmax_request_body = \"1MiB\"\n").await;
    let (stored, best) = (gzipped(Compression::none(), br#"{"a":1}"#), gzipped(Compression::best(), br#"{"a":1}"#));
    assert_ne!(stored, best);
    let compressed = |body: &Vec<u8>| post("/e", "").with("content-encoding", "gzip").body(body.clone());
    let first = gate.send(compressed(&stored));
    let call = gate.service.call().await;
    assert_eq!((&call.body[..], call.header("content-encoding")), (&stored[..], Some("gzip")));
    call.answer(reply(201, "created"));
    first.await.unwrap().is_executed(201, "created");
    gate.repeat(compressed(&best)).await.is_replay_of(201, "created");
    gate.repeat(post("/e", r#"{"a":1}"#)).await.is_replay_of(201, "created");

    let bomb = gzipped(Compression::best(), &vec![b' '; 8 << 20]);
    assert!(bomb.len() < 1 << 16);
    gate.repeat(compressed(&bomb).key("K2")).await.problem(413, "request-too-large");
}

#[tokio::test]
async fn c25_the_media_type_is_compared_and_its_charset_is_not() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/x", r#"{"a":1}"#), reply(201, "created")).await;
    gate.repeat(post("/x", r#"{"a":1}"#).with("content-type", "text/plain")).await.problem(422, "mismatch");
    let with_charset = post("/x", r#"{"a":1}"#).with("content-type", "application/json; charset=utf-8");
    gate.repeat(with_charset).await.is_replay_of(201, "created");
}

#[tokio::test]
async fn c26_the_query_is_compared_and_an_older_fingerprint_is_never_replayed() {
    let mut gate = Gate::start("").await;
    assert!(!is_same(&mut gate, "K1", post("/x?dry=1", "{}"), post("/x", "{}")).await, "a dry run is no real one");
    assert!(is_same(&mut gate, "K2", post("/x?b=2&a=1", "{}"), post("/x?a=1&b=2", "{}")).await);

    // A record as another version would have left it: the same request, its fingerprint in that version's form.
    let records = gate.records().await;
    let record = records.iter().find(|record| record.id.key().as_str() == "K2").unwrap();
    let mut older = record.fingerprint.as_bytes().to_vec();
    older[0] = older[0].wrapping_sub(1);
    let seed = ClaimRequest {
        id: RecordId::new(record.id.scope().clone(), IdempotencyKey::new("K3").unwrap()),
        fingerprint: Fingerprint::from_bytes(&older).unwrap(),
        owner: None,
        operation: record.operation.clone(),
        spelling: KeySpelling::Bare,
        policy: Policy::gateway(record.backend).into(),
    };
    let store = gate.store();
    let Claim::Acquired(lease) = store.claim(&seed).await.unwrap() else { panic!("K3 is new") };
    let response = StoredResponse { status: 201, headers: Vec::new(), body: Some("old".into()) };
    assert_eq!(store.complete(&lease, &response).await.unwrap(), Written::Done);
    gate.repeat(post("/x?a=1&b=2", "{}").key("K3")).await.problem(409, "rules-changed");
}

#[tokio::test]
async fn c27_the_first_body_sent_again_tells_what_became_of_it() {
    let mut gate = Gate::start("").await;
    let first = post("/charges", r#"{"amount":1212,"customer":"c1"}"#);
    let lost = gate.send(first.clone());
    let call = gate.service.call().await;
    lost.abort();
    call.answer(reply(201, "charged"));
    let changed = post("/charges", r#"{"amount":1212,"customer":"c1","metadata":{"try":"2"}}"#);
    let problem = gate.repeat(changed).await.problem(422, "mismatch");
    assert_eq!(problem["first_request"], "POST /charges");
    gate.conclude(&first).await.is_replay_of(201, "charged");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c28_a_rate_limited_batch_frees_its_key_for_the_next_body() {
    let mut gate = Gate::start("").await;
    let (old, new) = (post("/batch", "[1]"), post("/batch", "[1,2]"));
    gate.exchange(old.clone(), reply(429, "later")).await.is_executed(429, "later");
    gate.exchange(new.clone(), reply(200, "synced")).await.is_executed(200, "synced");
    gate.repeat(old).await.problem(422, "mismatch");
    gate.repeat(new).await.is_replay_of(200, "synced");
}

#[tokio::test]
async fn c29_a_retry_that_lost_its_body_is_422_during_the_execution_and_after_it() {
    let mut gate = Gate::start("").await;
    let charge = post("/charges", r#"{"amount":5}"#);
    let first = gate.send(charge.clone());
    let call = gate.service.call().await;
    let problem = gate.repeat(charge.clone().body("")).await.problem(422, "mismatch");
    assert_eq!(problem["state"], "in_flight");
    call.answer(reply(201, "charged"));
    first.await.unwrap().is_executed(201, "charged");
    let problem = gate.repeat(charge.body("")).await.problem(422, "mismatch");
    assert_eq!(problem["state"], "completed");
}

#[tokio::test]
async fn c30_no_body_is_one_request_however_it_is_framed() {
    let mut gate = Gate::start("").await;
    let confirm = |fields: &str, body: &str| {
        let head = "POST /orders/1/confirm HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer A\r\n";
        format!("{head}Idempotency-Key: K1\r\n{fields}\r\n{body}").into_bytes()
    };
    let (address, unframed) = (gate.server.address.clone(), confirm("", ""));
    let first = tokio::spawn(async move { wire(&address, &unframed).await });
    gate.service.call().await.answer(reply(200, "confirmed"));
    first.await.unwrap().is_executed(200, "confirmed");
    for (fields, body) in [("Content-Length: 0\r\n", ""), ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n")] {
        wire(&gate.server.address, &confirm(fields, body)).await.is_replay_of(200, "confirmed");
    }
    wire(&gate.server.address, &confirm("Content-Length: 2\r\n", "{}")).await.problem(422, "mismatch");
    assert_eq!(gate.executions(), 1);
}
