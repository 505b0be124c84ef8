//! C83 to C87: deliveries of events, messages and jobs, which come at least once.

use std::time::Duration;

use oncegate_core::{Filter, Store};

use crate::harness::{Answer, Gate, Sent, post, reply};

/// Senders retry, and handlers cope: an abandoned delivery runs again.
const HOOKS: &str = r#"
    [[route]]
    name = "stripe"
    match = "POST /hooks/stripe"
    key = "body:/id"
    backend = "idempotent"
    statuses = { release = [500] }
    [[route]]
    name = "github"
    match = "POST /hooks/github"
    key = "body:/id"
"#;

/// A delivery of event `evt_1`: its sender knows nothing of keys.
fn delivery(provider: &str) -> Sent {
    let event = r#"{"id":"evt_1","type":"payment.failed"}"#;
    post(&format!("/hooks/{provider}"), event).without("idempotency-key").without("authorization")
}

#[tokio::test]
async fn c83_of_two_deliveries_of_one_event_one_executes() {
    let mut gate = Gate::start(HOOKS).await;
    let (mut one, mut two) = (gate.send(delivery("stripe")), gate.send(delivery("stripe")));
    let call = gate.service.call().await;
    let (refused, executing) = tokio::select! {
        answer = &mut one => (answer, two),
        answer = &mut two => (answer, one),
    };
    refused.unwrap().problem(409, "in-flight");
    call.answer(reply(200, "mailed"));
    executing.await.unwrap().is_executed(200, "mailed");
    gate.restart(HOOKS).await;
    gate.repeat(delivery("stripe")).await.is_replay_of(200, "mailed");

    // Another provider numbers its events as it likes.
    gate.exchange(delivery("github"), reply(202, "built")).await.is_executed(202, "built");
    gate.repeat(delivery("github")).await.is_replay_of(202, "built");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c84_a_fault_of_the_store_is_no_repeat_and_the_sender_sends_again() {
    let mut gate = Gate::start(HOOKS).await;
    let lock = gate.lock_store();
    let refused = gate.repeat(delivery("stripe")).await;
    refused.problem(503, "store-unavailable");
    assert!(refused.header("retry-after").is_some());
    drop(lock);
    let address = gate.server.address.clone();
    let not_yet = |answer: &Answer| assert!([409, 503].contains(&answer.status), "{answer:?}");
    let (sent, call) = gate.until_executed(&address, &delivery("stripe"), not_yet).await;
    call.answer(reply(200, "funded"));
    sent.await.unwrap().is_executed(200, "funded");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c84_a_delivery_is_not_acknowledged_before_it_succeeded() {
    let mut gate = Gate::start(HOOKS).await;
    let first = gate.send(delivery("stripe"));
    let call = gate.service.call().await;
    let second = gate.repeat(delivery("stripe")).await;
    second.problem(409, "in-flight");
    assert!(second.header("retry-after").is_some());
    call.answer(reply(500, "the ledger is locked"));
    first.await.unwrap().is_executed(500, "the ledger is locked");
    gate.exchange(delivery("stripe"), reply(200, "funded")).await.is_executed(200, "funded");
    gate.repeat(delivery("stripe")).await.is_replay_of(200, "funded");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c84_a_delivery_whose_worker_died_runs_again_after_its_lease() {
    let brief = HOOKS.replace("release = [500] }", "release = [500] }\nlease = \"1s\"");
    let mut gate = Gate::start(&brief).await;
    let sent = gate.send(delivery("stripe"));
    let _never_answered = gate.service.call().await;
    gate.restart(HOOKS).await;
    assert!(sent.await.is_err());
    let address = gate.server.address.clone();
    let in_flight = |answer: &Answer| drop(answer.problem(409, "in-flight"));
    let (taken, call) = gate.until_executed(&address, &delivery("stripe"), in_flight).await;
    assert_eq!(call.header("oncegate-attempt"), Some("2"));
    call.answer(reply(200, "funded"));
    taken.await.unwrap().is_executed(200, "funded");
    gate.repeat(delivery("stripe")).await.is_replay_of(200, "funded");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c85_a_message_that_is_delivered_again_gets_the_same_answer_for_its_retention() {
    let config = "[defaults]\nretention = \"7d\"\n";
    let mut gate = Gate::start(config).await;
    let message = post("/transactions", r#"{"amount":5}"#).key("payroll:co1:2025-03:SAL:h1");
    gate.exchange(message.clone(), reply(201, "booked")).await.is_executed(201, "booked");
    for _ in 0..2 {
        gate.repeat(message.clone()).await.is_replay_of(201, "booked");
        gate.restart(config).await;
    }
    gate.repeat(message).await.is_replay_of(201, "booked");
    let records = gate.records().await;
    assert_eq!(records[0].expires_at.since(records[0].created_at).as_secs() / 86_400, 7, "{records:?}");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c86_a_repeat_joins_the_running_call_and_does_not_disturb_it() {
    let mut gate = Gate::start("[defaults]\nwait = \"30s\"\n").await;
    let request = post("/svc/h", "{}");
    let first = gate.send(request.clone());
    let call = gate.service.call().await;
    let (mut impatient, joined) = (gate.send(request.clone()), gate.send(request.clone()));
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut impatient).await.is_err(), "it does not wait");
    impatient.abort();
    call.answer(reply(200, "output"));
    first.await.unwrap().is_executed(200, "output");
    joined.await.unwrap().is_replay_of(200, "output");

    let sent = post("/svc/h/send", "{}").key("K2");
    gate.exchange(sent.clone(), reply(202, r#"{"id":"inv_1"}"#)).await.is_executed(202, r#"{"id":"inv_1"}"#);
    gate.repeat(sent).await.is_replay_of(202, r#"{"id":"inv_1"}"#);
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c87_a_refused_request_does_not_touch_the_record_of_the_first() {
    // Long enough that no extension changes the record meanwhile.
    let mut gate = Gate::start("[defaults]\nlease = \"5m\"\n").await;
    let first = gate.send(post("/a", "{}"));
    let _never_answered = gate.service.call().await;
    let before = gate.records().await;
    for _ in 0..3 {
        let problem = gate.repeat(post("/b", "{}")).await.problem(422, "mismatch");
        assert_eq!((&problem["first_request"], &problem["state"]), (&"POST /a".into(), &"in_flight".into()));
    }
    assert_eq!(gate.records().await, before);

    gate.restart("").await;
    assert!(first.await.is_err());
    gate.repeat(post("/b", "{}")).await.problem(422, "mismatch");
    gate.repeat(post("/a", "{}")).await.problem(409, "in-flight");
    assert_eq!(gate.store().list(&Filter::default()).await.unwrap(), before);
    assert_eq!(gate.executions(), 1);
}
