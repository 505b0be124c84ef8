//! C47 to C54: which answers are final, and which free the key.

use crate::harness::{Gate, post, reply, with_headers};

#[tokio::test]
async fn c47_no_key_is_made_of_the_payload() {
    let mut gate = Gate::start("").await;
    let journal = post("/journal", r#"{"amount":5}"#).without("idempotency-key");
    for entry in ["first", "second"] {
        gate.exchange(journal.clone(), reply(201, entry)).await.is_executed(201, entry);
    }
    assert_eq!(gate.executions(), 2);
    assert!(gate.records().await.is_empty());
}

#[tokio::test]
async fn c48_a_passing_failure_frees_the_key() {
    let mut gate = Gate::start("").await;
    let fund = post("/fund", "{}");
    gate.exchange(fund.clone(), reply(503, "later")).await.is_executed(503, "later");
    gate.exchange(fund.clone(), reply(201, "funded")).await.is_executed(201, "funded");
    gate.repeat(fund).await.is_replay_of(201, "funded");
}

#[tokio::test]
async fn c48_a_service_that_cannot_be_reached_frees_the_key() {
    let mut gate = Gate::start("").await;
    gate.service.refuse().await;
    let fund = post("/fund", "{}");
    for _ in 0..2 {
        let problem = gate.repeat(fund.clone()).await.problem(502, "upstream-unreachable");
        assert_eq!(problem["retry"], "same-key");
    }
    gate.service.accept().await;
    gate.exchange(fund.clone(), reply(201, "funded")).await.is_executed(201, "funded");
    gate.repeat(fund).await.is_replay_of(201, "funded");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c49_a_failure_that_may_hide_an_effect_is_not_run_again() {
    let mut gate = Gate::start("").await;
    let charge = |key: &str| post("/charges", "{}").key(key);
    gate.exchange(charge("500"), reply(500, "the receipt failed")).await.is_executed(500, "the receipt failed");
    gate.repeat(charge("500")).await.is_replay_of(500, "the receipt failed");
    for status in [502, 504] {
        let key = status.to_string();
        gate.exchange(charge(&key), reply(status, "lost")).await.is_executed(status, "lost");
        let problem = gate.repeat(charge(&key)).await.problem(409, "unknown");
        assert_eq!((&problem["retry"], &problem["reason"]), (&"operator".into(), &format!("status {status}").into()));
    }
    let reset = gate.send(charge("reset"));
    gate.service.call().await.hang_up();
    reset.await.unwrap().problem(502, "upstream-failed");
    let problem = gate.repeat(charge("reset")).await.problem(409, "unknown");
    assert_eq!(problem["reason"], "reset");
    assert_eq!(gate.executions(), 4);
}

#[tokio::test]
async fn c49_a_route_can_say_that_its_500_has_no_effect() {
    let config = r#"
        [[route]]
        name = "charges"
        match = "POST /charges"
        statuses = { release = [500] }
    "#;
    let mut gate = Gate::start(config).await;
    let charge = post("/charges", "{}");
    gate.exchange(charge.clone(), reply(500, "rolled back")).await.is_executed(500, "rolled back");
    gate.exchange(charge.clone(), reply(201, "charged")).await.is_executed(201, "charged");
    gate.repeat(charge).await.is_replay_of(201, "charged");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c50_a_corrected_code_needs_a_new_key_and_never_gets_the_old_answer() {
    let mut gate = Gate::start("").await;
    let verify = |code: &str| post("/verify", &format!(r#"{{"otp":"{code}"}}"#));
    gate.exchange(verify("000000"), reply(400, "wrong code")).await.is_executed(400, "wrong code");
    let problem = gate.repeat(verify("123456")).await.problem(422, "mismatch");
    assert_eq!((&problem["retry"], &problem["first_request"]), (&"new-key".into(), &"POST /verify".into()));
    gate.repeat(verify("000000")).await.is_replay_of(400, "wrong code");
    gate.exchange(verify("123456").key("K2"), reply(200, "welcome")).await.is_executed(200, "welcome");
}

#[tokio::test]
async fn c50_a_route_can_say_that_its_400_frees_the_key() {
    let mut gate = Gate::start("[defaults]\nstatuses = { release = [400] }\n").await;
    let verify = |code: &str| post("/verify", &format!(r#"{{"otp":"{code}"}}"#));
    gate.exchange(verify("000000"), reply(400, "wrong code")).await.is_executed(400, "wrong code");
    gate.exchange(verify("123456"), reply(200, "welcome")).await.is_executed(200, "welcome");
    gate.repeat(verify("123456")).await.is_replay_of(200, "welcome");
}

#[tokio::test]
async fn c51_the_services_own_409_is_final_and_told_apart_from_ours() {
    let mut gate = Gate::start("").await;
    let booking = post("/bookings", r#"{"slot":9}"#);
    let lost = gate.send(booking.clone());
    let call = gate.service.call().await;
    let running = gate.repeat(booking.clone()).await;
    running.problem(409, "in-flight");
    assert_eq!(running.header("idempotent-replayed"), None);
    lost.abort();
    call.answer(reply(409, "the slot is taken"));
    let refused = gate.conclude(&booking).await;
    refused.is_replay_of(409, "the slot is taken");
    assert_eq!(refused.header("oncegate-problem"), None);
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c52_a_429_is_passed_on_with_its_retry_after_and_frees_the_key() {
    let mut gate = Gate::start("").await;
    let request = post("/companies", "{}");
    let limited = with_headers(reply(429, "slow down"), &[("retry-after", "1")]);
    let first = gate.exchange(request.clone(), limited).await;
    first.is_executed(429, "slow down");
    assert_eq!(first.header("retry-after"), Some("1"));
    gate.exchange(request.clone(), reply(201, "created")).await.is_executed(201, "created");
    gate.repeat(request).await.is_replay_of(201, "created");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c53_after_a_decline_another_card_is_another_attempt_with_a_new_key() {
    let mut gate = Gate::start("").await;
    let charge = |card: &str| post("/charges", &format!(r#"{{"card":"{card}"}}"#));
    gate.exchange(charge("c1"), reply(402, "declined")).await.is_executed(402, "declined");
    gate.repeat(charge("c1")).await.is_replay_of(402, "declined");
    let problem = gate.repeat(charge("c2")).await.problem(422, "mismatch");
    assert_eq!(problem["retry"], "new-key");
    gate.exchange(charge("c2").key("K2"), reply(201, "charged")).await.is_executed(201, "charged");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c53_a_route_can_say_that_a_decline_frees_the_key() {
    let mut gate = Gate::start("[defaults]\nstatuses = { release = [402] }\n").await;
    let charge = |card: &str| post("/charges", &format!(r#"{{"card":"{card}"}}"#));
    gate.exchange(charge("c1"), reply(402, "declined")).await.is_executed(402, "declined");
    gate.exchange(charge("c2"), reply(201, "charged")).await.is_executed(201, "charged");
}

#[tokio::test]
async fn c54_one_table_of_statuses_holds_for_single_and_batch_routes() {
    let config = r#"
        [defaults]
        statuses = { release = [424], store = [429], ambiguous = [520] }
        [[route]]
        name = "batch"
        match = "POST /trigger/batch"
        wait = "1s"
        [[route]]
        name = "single"
        match = "POST /trigger"
    "#;
    let mut gate = Gate::start(config).await;
    // The last one matches no route.
    for path in ["/trigger", "/trigger/batch", "/trigger/all"] {
        let trigger = |key: &str| post(path, "{}").key(&format!("{path} {key}").replace(' ', "-"));
        let run = trigger("run");
        gate.exchange(run.clone(), reply(424, "not started")).await.is_executed(424, "not started");
        gate.exchange(run.clone(), reply(500, "the run died")).await.is_executed(500, "the run died");
        gate.repeat(run).await.is_replay_of(500, "the run died");
        gate.exchange(trigger("limit"), reply(429, "for good")).await.is_executed(429, "for good");
        gate.repeat(trigger("limit")).await.is_replay_of(429, "for good");
        gate.exchange(trigger("lost"), reply(520, "perhaps")).await.is_executed(520, "perhaps");
        gate.repeat(trigger("lost")).await.problem(409, "unknown");
    }
    assert_eq!(gate.executions(), 12);

    // One key for both: the batch does not answer with the single run, and neither runs again.
    gate.exchange(post("/trigger", "{}").key("both"), reply(201, "run 1")).await.is_executed(201, "run 1");
    gate.repeat(post("/trigger/batch", "{}").key("both")).await.problem(422, "mismatch");
    gate.repeat(post("/trigger", "{}").key("both")).await.is_replay_of(201, "run 1");
}
