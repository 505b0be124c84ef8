//! C01 to C06: requests that arrive at the same instant.

use std::time::Duration;

use futures_util::future::select_all;

use crate::harness::{Gate, post, reply};

#[tokio::test]
async fn c01_of_two_identical_posts_in_the_same_instant_one_executes() {
    let mut gate = Gate::start("").await;
    for round in 0..50 {
        let request = post("/orders", r#"{"sku":"x","qty":1}"#).key(&format!("K{round}"));
        let (first, second) = (gate.send(request.clone()), gate.send(request.clone()));
        let call = gate.service.call().await;
        let refused = tokio::select! {
            answer = first => answer.unwrap(),
            answer = second => answer.unwrap(),
        };
        refused.problem(409, "in-flight");
        assert!(refused.header("retry-after").is_some());
        call.answer(reply(201, "created"));
        gate.conclude(&request).await.is_replay_of(201, "created");
        assert_eq!(gate.executions(), round + 1);
    }
}

#[tokio::test]
async fn c04_another_payload_while_the_first_runs_is_422_and_not_409() {
    let mut gate = Gate::start("").await;
    let first = gate.send(post("/orders", r#"{"qty":1}"#));
    let call = gate.service.call().await;
    gate.repeat(post("/orders", r#"{"qty":2}"#)).await.problem(422, "mismatch");
    gate.repeat(post("/orders", r#"{"qty":1}"#)).await.problem(409, "in-flight");
    call.answer(reply(201, "created"));
    first.await.unwrap().is_executed(201, "created");
}

#[tokio::test]
async fn c02_losers_of_the_race_are_told_so_and_get_no_5xx() {
    let mut gate = Gate::start("").await;
    // Two processes, so that the race is run in the store too.
    let other = gate.another("").await;
    for round in 0..10 {
        let request = post("/charges", r#"{"amount":5}"#).key(&format!("K{round}"));
        let addresses = [&gate.server.address, &other.address].into_iter().cycle().take(16);
        let sent: Vec<_> = addresses.map(|address| gate.send_to(address, request.clone())).collect();
        gate.service.call().await.answer(reply(201, "charged"));
        let mut executed = 0;
        for answer in sent {
            let answer = answer.await.unwrap();
            match (answer.status, answer.header("idempotent-replayed")) {
                (201, None) => executed += 1,
                (201, Some(_)) => answer.is_replay_of(201, "charged"),
                _ => drop(answer.problem(409, "in-flight")),
            }
        }
        assert_eq!((executed, gate.executions()), (1, round + 1));
    }
}

#[tokio::test]
async fn c03_of_two_bodies_at_once_one_is_refused_before_it_is_forwarded() {
    let mut gate = Gate::start("").await;
    for round in 0..20 {
        let key = format!("K{round}");
        let transfer = |amount| post("/transfers", &format!(r#"{{"amount":{amount}}}"#)).key(&key);
        let (mut small, mut large) = (gate.send(transfer(100)), gate.send(transfer(900)));
        let call = gate.service.call().await;
        let (refused, accepted, amount) = tokio::select! {
            answer = &mut small => (answer, large, 900),
            answer = &mut large => (answer, small, 100),
        };
        refused.unwrap().problem(422, "mismatch");
        assert_eq!(call.body, format!(r#"{{"amount":{amount}}}"#));
        call.answer(reply(201, "transferred"));
        accepted.await.unwrap().is_executed(201, "transferred");
        assert_eq!(gate.executions(), round + 1);
    }
}

#[tokio::test]
async fn c05_a_repeat_waits_for_the_answer_up_to_the_limit_of_its_route() {
    let config = r#"
        [[route]]
        name = "patient"
        match = "POST /orders"
        wait = "30s"
        [[route]]
        name = "hasty"
        match = "POST /clicks"
        wait = "50ms"
    "#;
    let mut gate = Gate::start(config).await;
    let first = gate.send(post("/orders", "{}"));
    let call = gate.service.call().await;
    let mut repeat = gate.send(post("/orders", "{}"));
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut repeat).await.is_err(), "it does not wait");
    call.answer(reply(201, "ordered"));
    first.await.unwrap().is_executed(201, "ordered");
    repeat.await.unwrap().is_replay_of(201, "ordered");

    let click = post("/clicks", "{}").key("K2");
    let first = gate.send(click.clone());
    let call = gate.service.call().await;
    let refused = gate.repeat(click).await;
    refused.problem(409, "in-flight");
    assert!(refused.header("retry-after").is_some());
    call.answer(reply(201, "counted"));
    first.await.unwrap().is_executed(201, "counted");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c06_repeats_are_suppressed_during_the_execution_as_after_it() {
    let mut gate = Gate::start("").await;
    let mut sent: Vec<_> = (0..5).map(|_| gate.send(post("/jobs", r#"{"n":1}"#))).collect();
    let call = gate.service.call().await;
    while sent.len() > 1 {
        let (answer, _, rest) = select_all(sent).await;
        answer.unwrap().problem(409, "in-flight");
        sent = rest;
    }
    call.answer(reply(200, "done"));
    sent.remove(0).await.unwrap().is_executed(200, "done");
    gate.repeat(post("/jobs", r#"{"n":1}"#)).await.is_replay_of(200, "done");
    assert_eq!(gate.executions(), 1);
}
