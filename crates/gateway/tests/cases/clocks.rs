//! C15 to C19: time zones, retention and repeats that come late.

use std::time::Duration;

use oncegate_core::State;

use crate::harness::{Gate, post, reply};

/// Waits until the store has no more than `left` records that live.
async fn until_expired(gate: &Gate, left: usize) {
    while gate.records().await.len() > left {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The two zones are more than a day apart: a local time in the store would have expired at once.
#[tokio::test]
async fn c15_gateways_in_different_time_zones_agree() {
    let mut gate = Gate::start_with("", &[("TZ", "EAST-14")]).await;
    let west = gate.another_with("", &[("TZ", "WEST+12")]).await;
    let request = post("/jobs", "{}");
    let first = gate.send(request.clone());
    let call = gate.service.call().await;
    gate.repeat_at(&west.address, request.clone()).await.problem(409, "in-flight");
    call.answer(reply(200, "done"));
    first.await.unwrap().is_executed(200, "done");
    let (east, west) = (gate.repeat(request.clone()).await, gate.repeat_at(&west.address, request).await);
    for replay in [&east, &west] {
        replay.is_replay_of(200, "done");
        assert!(replay.header("idempotency-expires").unwrap().ends_with(" GMT"));
    }
    for name in ["idempotency-expires", "idempotency-completed"] {
        assert_eq!(east.header(name), west.header(name));
    }
}

#[tokio::test]
async fn c16_a_repeat_beyond_the_retention_executes_as_a_new_request() {
    let mut gate = Gate::start("[defaults]\nlease = \"1s\"\nretention = \"3s\"\n").await;
    let request = post("/tables", "{}");
    let first = gate.exchange(request.clone(), reply(201, "first")).await;
    first.is_executed(201, "first");
    let until = first.header("idempotency-expires").expect("clients are told when to stop").to_owned();
    // No copy in memory outlives the record.
    until_expired(&gate, 0).await;
    let again = gate.exchange(request, reply(201, "second")).await;
    again.is_executed(201, "second");
    assert_ne!(again.header("idempotency-expires"), Some(&*until));
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c17_an_expired_record_is_absent_before_it_is_deleted() {
    let mut gate = Gate::start("[defaults]\nlease = \"500ms\"\nretention = \"500ms\"\n").await;
    gate.exchange(post("/orders", r#"{"qty":1}"#), reply(201, "first")).await;
    until_expired(&gate, 0).await;
    // The next ones live as long as they are needed.
    gate.restart("").await;
    let other = post("/orders", r#"{"qty":2}"#);
    let (mut one, mut two) = (gate.send(other.clone()), gate.send(other.clone()));
    let call = gate.service.call().await;
    let (refused, executed) = tokio::select! {
        answer = &mut one => (answer, two),
        answer = &mut two => (answer, one),
    };
    refused.unwrap().problem(409, "in-flight");
    call.answer(reply(201, "second"));
    executed.await.unwrap().is_executed(201, "second");
    gate.repeat(other).await.is_replay_of(201, "second");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c18_each_route_has_the_retention_that_its_clients_need() {
    let config = r#"
        [[route]]
        name = "agents"
        match = "POST /agents"
        retention = "7d"
        [[route]]
        name = "ping"
        match = "POST /ping"
        lease = "500ms"
        retention = "500ms"
    "#;
    let mut gate = Gate::start(config).await;
    for (path, hours) in [("/agents", 7 * 24), ("/jobs", 24)] {
        gate.exchange(post(path, "{}").key(path), reply(201, path)).await;
        let records = gate.records().await;
        let record = records.iter().find(|record| record.operation.as_str().ends_with(path));
        let record = record.expect("a record that was just completed lives");
        let State::Completed { completed_at, .. } = record.state else { panic!("{record:?}") };
        assert_eq!(record.expires_at.since(completed_at), Duration::from_hours(hours), "{path}");
    }
    for _ in 0..2 {
        gate.exchange(post("/ping", "{}").key("/ping"), reply(201, "pong")).await;
        until_expired(&gate, 2).await;
    }
    for path in ["/agents", "/jobs"] {
        gate.repeat(post(path, "{}").key(path)).await.is_replay_of(201, path);
    }
}

#[tokio::test]
async fn c19_a_replay_says_that_it_is_one_and_how_old() {
    let mut gate = Gate::start("").await;
    let board = post("/boards", r#"{"title":"Untitled"}"#);
    let first = gate.exchange(board.clone(), reply(201, r#"{"id":1}"#)).await;
    first.is_executed(201, r#"{"id":1}"#);
    assert_eq!(first.header("idempotency-completed"), None);
    let repeat = gate.repeat(board).await;
    repeat.is_replay_of(201, r#"{"id":1}"#);
    let completed = repeat.header("idempotency-completed").unwrap();
    assert!(completed.ends_with(" GMT"), "{completed}");
    assert_eq!(gate.executions(), 1);
}
