//! C01 to C06: requests that arrive at the same instant.

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
