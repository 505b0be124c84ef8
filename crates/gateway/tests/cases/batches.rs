//! C88 and C89: many items under one key.

use crate::harness::{Gate, post, reply};

#[tokio::test]
async fn c88_equal_keys_inside_of_a_batch_are_the_services_business() {
    let mut gate = Gate::start("").await;
    let items = r#"[{"key":"i1","amt":1},{"key":"i1","amt":1},{"key":"i1","amt":2}]"#;
    let first = gate.send(post("/batch", items));
    let call = gate.service.call().await;
    assert_eq!(call.body, items, "whole, and as it was sent");
    let results = r#"[{"ok":1},{"ok":1},{"error":"mismatch"}]"#;
    call.answer(reply(200, results));
    first.await.unwrap().is_executed(200, results);
    gate.repeat(post("/batch", items)).await.is_replay_of(200, results);
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c89_a_batch_that_failed_in_part_is_replayed_whole_and_its_rest_is_a_new_request() {
    let mut gate = Gate::start("").await;
    let mails = |items: &str| post("/emails/batch", items);
    for (key, status) in [("K1", 207), ("K2", 200)] {
        let (all, mixed) = (mails(r#"["a","b","c"]"#).key(key), r#"{"ids":["a","b"],"errors":[{"i":2}]}"#);
        gate.exchange(all.clone(), reply(status, mixed)).await.is_executed(status, mixed);
        gate.repeat(all).await.is_replay_of(status, mixed);
        gate.repeat(mails(r#"["b","a","c"]"#).key(key)).await.problem(422, "mismatch");
        gate.repeat(mails(r#"["c"]"#).key(key)).await.problem(422, "mismatch");
    }
    gate.exchange(mails(r#"["c"]"#).key("K3"), reply(200, "sent")).await.is_executed(200, "sent");
    assert_eq!(gate.executions(), 3);
}
