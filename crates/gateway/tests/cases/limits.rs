//! C55 and C56: checks that belong to an execution, and repeats that do not execute.

use crate::harness::{Gate, post, reply, with_headers};

/// The proxy in front says who calls, at every request; whether a one-time proof is fresh is for the service to say.
#[tokio::test]
async fn c55_a_one_time_proof_is_judged_where_the_request_executes_and_not_at_its_repeat() {
    let mut gate = Gate::start("[defaults]\nscope = [\"header:X-Account\"]\n").await;
    let task =
        |proof| post("/tasks", "{}").with("x-account", "a1").with("authorization", "DPoP t1").with("dpop", proof);
    let lost = gate.send(task("j1"));
    let call = gate.service.call().await;
    assert_eq!((call.header("authorization"), call.header("dpop")), (Some("DPoP t1"), Some("j1")));
    lost.abort();
    call.answer(reply(201, "created"));
    gate.conclude(&task("j1")).await.is_replay_of(201, "created");
    gate.repeat(task("j2")).await.is_replay_of(201, "created");

    // Whoever is not that account any more is judged by the service, and nothing of that is kept.
    let revoked = task("j3").with("x-account", "revoked");
    for _ in 0..2 {
        gate.exchange(revoked.clone(), reply(401, "revoked")).await.is_executed(401, "revoked");
    }
    gate.repeat(task("j4")).await.is_replay_of(201, "created");
}

#[tokio::test]
async fn c56_a_repeat_costs_nothing_of_the_limit_behind_the_gate() {
    let mut gate = Gate::start("").await;
    let chat = |key| post("/chat", "{}").key(key);
    let lost = gate.send(chat("K1"));
    let call = gate.service.call().await;
    lost.abort();
    call.answer(with_headers(reply(200, "hello"), &[("ratelimit-remaining", "0")]));
    let repeat = gate.conclude(&chat("K1")).await;
    repeat.is_replay_of(200, "hello");
    assert_eq!(repeat.header("ratelimit-remaining"), None, "the limit of then says nothing now");
    gate.exchange(chat("K2"), reply(429, "1 a minute")).await.is_executed(429, "1 a minute");
    gate.repeat(chat("K1")).await.is_replay_of(200, "hello");
    assert_eq!(gate.executions(), 2);
}
