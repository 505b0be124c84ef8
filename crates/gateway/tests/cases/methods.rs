//! C38 to C41: which methods are guarded, and what a repeat gets.

use http::Method;
use http_body::Frame;

use crate::harness::{Gate, post, reply, streamed, with_headers};

#[tokio::test]
async fn c38_a_key_on_a_safe_method_is_ignored() {
    let mut gate = Gate::start("").await;
    let safe = |method, path: &'static str| post(path, "").method(method).without("content-type");
    for version in ["v1", "v2"] {
        gate.exchange(safe(Method::GET, "/orders/1"), reply(200, version)).await.is_executed(200, version);
    }
    let length = with_headers(reply(200, ""), &[("content-length", "2")]);
    let head = gate.exchange(safe(Method::HEAD, "/orders/1"), length).await;
    head.is_executed(200, "");
    assert_eq!(head.header("content-length"), Some("2"));
    gate.exchange(safe(Method::OPTIONS, "/orders"), reply(204, "")).await.is_executed(204, "");
    assert_eq!(gate.executions(), 4);
    assert!(gate.records().await.is_empty());
}

#[tokio::test]
async fn c39_a_repeated_delete_is_told_that_it_worked() {
    let mut gate = Gate::start("[[route]]\nname = \"items\"\nmatch = \"DELETE /items/*\"\n").await;
    let delete = |key| post("/items/7", "").method(Method::DELETE).without("content-type").key(key);
    gate.exchange(delete("K1"), reply(204, "")).await.is_executed(204, "");
    let repeat = gate.repeat(delete("K1")).await;
    repeat.is_replay_of(204, "");
    assert_eq!(repeat.header("content-length"), None);
    gate.exchange(delete("K2"), reply(404, "gone")).await.is_executed(404, "gone");
    gate.repeat(delete("K2")).await.is_replay_of(404, "gone");
}

#[tokio::test]
async fn c40_a_repeat_after_a_lost_answer_gets_the_answer_and_not_a_conflict() {
    let mut gate = Gate::start("").await;
    let mail = post("/send", r#"{"to":"a@example.org"}"#);
    let lost = gate.send(mail.clone());
    let call = gate.service.call().await;
    lost.abort();
    gate.repeat(mail.clone()).await.problem(409, "in-flight");
    let (parts, answer) = streamed(200);
    call.answer(with_headers(answer, &[("content-type", "application/json")]));
    for part in [r#"{"id":"#, r#""e1"}"#] {
        parts.send(Ok(Frame::data(part.into()))).unwrap();
    }
    drop(parts);
    let repeat = gate.conclude(&mail).await;
    repeat.is_replay_of(200, r#"{"id":"e1"}"#);
    assert_eq!(repeat.header("content-type"), Some("application/json"));
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c41_every_further_repeat_gets_the_same_answer() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/statuses", "{}"), reply(200, r#"{"id":"s1"}"#)).await;
    for _ in 0..3 {
        gate.repeat(post("/statuses", "{}")).await.is_replay_of(200, r#"{"id":"s1"}"#);
    }
    gate.restart("").await;
    gate.repeat(post("/statuses", "{}")).await.is_replay_of(200, r#"{"id":"s1"}"#);
    assert_eq!(gate.executions(), 1);
}
