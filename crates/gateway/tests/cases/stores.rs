//! C74 to C82: stores that are down, slow, full or shared.

use http::Method;

use crate::harness::{Answer, Gate, post, reply};

fn not_executed(answer: &Answer) {
    assert!([409, 503].contains(&answer.status), "{answer:?}");
    assert_eq!(answer.header("idempotent-replayed"), None, "{answer:?}");
}

#[tokio::test]
async fn c74_while_the_store_is_down_nothing_with_a_key_is_executed() {
    let mut gate = Gate::start("").await;
    let payroll = post("/payroll", "{}");
    let lock = gate.lock_store();
    let refused = gate.repeat(payroll.clone()).await;
    let problem = refused.problem(503, "store-unavailable");
    assert_eq!(problem["retry"], "same-key");
    assert!(refused.header("retry-after").is_some());
    let keyless = post("/payroll", "{}").without("idempotency-key");
    gate.exchange(keyless, reply(201, "unguarded")).await.is_executed(201, "unguarded");
    let read = post("/payroll", "").method(Method::GET).without("content-type");
    gate.exchange(read, reply(200, "read")).await.is_executed(200, "read");
    let errors = r#"oncegate_store_errors_total{verb="claim",kind=""#;
    assert!(gate.server.admin("/metrics").await.contains(errors), "nobody sees that it is down");
    drop(lock);
    let address = gate.server.address.clone();
    let (sent, call) = gate.until_executed(&address, &payroll, not_executed).await;
    call.answer(reply(201, "paid"));
    sent.await.unwrap().is_executed(201, "paid");
    gate.repeat(payroll).await.is_replay_of(201, "paid");
    assert_eq!(gate.executions(), 3);
}

#[tokio::test]
async fn c74_a_store_that_is_lost_in_between_does_not_keep_the_answer_from_the_client() {
    let mut gate = Gate::start("").await;
    let payroll = post("/payroll", "{}");
    let sent = gate.send(payroll.clone());
    let call = gate.service.call().await;
    let lock = gate.lock_store();
    call.answer(reply(201, "paid"));
    sent.await.unwrap().is_executed(201, "paid");
    not_executed(&gate.repeat(payroll.clone()).await);
    drop(lock);
    gate.conclude(&payroll).await.is_replay_of(201, "paid");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c74_a_route_can_choose_to_go_on_unguarded_and_says_so() {
    let config = "[[route]]\nname = \"clicks\"\nmatch = \"POST /clicks\"\nfail_open = true\n";
    let mut gate = Gate::start(config).await;
    let lock = gate.lock_store();
    for click in ["first", "second"] {
        let answer = gate.exchange(post("/clicks", "{}"), reply(200, click)).await;
        answer.is_executed(200, click);
        assert_eq!(answer.header("oncegate-failed-open"), Some("true"));
    }
    drop(lock);
    assert_eq!(gate.server.metric("oncegate_failed_open_requests_total").await, 2.0);
}

#[tokio::test]
async fn c75_a_full_memory_never_forgets_a_running_claim() {
    let mut gate = Gate::start("[store]\ncache_bytes = \"1KiB\"\n").await;
    let first = gate.send(post("/orders", "{}"));
    let call = gate.service.call().await;
    let body = ".".repeat(200);
    for number in 0..100 {
        gate.exchange(post("/orders", "{}").key(&format!("other-{number}")), reply(201, &body)).await;
    }
    gate.repeat(post("/orders", "{}")).await.problem(409, "in-flight");
    // It is this process that still knows: a repeat with another body is refused although the memory is full.
    gate.repeat(post("/orders", r#"{"qty":2}"#)).await.problem(422, "mismatch");
    call.answer(reply(201, "ordered"));
    first.await.unwrap().is_executed(201, "ordered");
    gate.repeat(post("/orders", "{}")).await.is_replay_of(201, "ordered");
    gate.repeat(post("/orders", "{}").key("other-0")).await.is_replay_of(201, &body);
    assert_eq!(gate.executions(), 101);
}

#[tokio::test]
async fn c77_many_writers_of_one_file_get_no_5xx() {
    let mut gate = Gate::start("").await;
    let other = gate.another("").await;
    let addresses = [gate.server.address.clone(), other.address.clone()];
    let mut executions = 0;
    for round in 0..4 {
        let mut sent = Vec::new();
        for number in 0..50 {
            let distinct = post("/orders", "{}").key(&format!("K-{round}-{number}"));
            let equal = post("/orders", "{}").key(&format!("equal-{round}"));
            sent.push((true, gate.send_to(&addresses[number % 2], distinct)));
            sent.push((false, gate.send_to(&addresses[number % 2], equal)));
        }
        // Somebody reads meanwhile, and so holds a snapshot.
        let reading = gate.server.admin("/api/records?limit=1000");
        let answering = async {
            for _ in 0..51 {
                gate.service.call().await.answer(reply(201, "ordered"));
            }
        };
        let (listed, ()) = tokio::join!(reading, answering);
        assert!(listed.contains("\"records\""), "{listed}");
        let mut executed = 0;
        for (is_distinct, answer) in sent {
            let answer = answer.await.unwrap();
            match answer.header("oncegate-problem") {
                Some("in-flight") => assert_eq!((answer.status, is_distinct), (409, false)),
                _ => assert_eq!(answer.status, 201, "{answer:?}"),
            }
            executed += usize::from(answer.status == 201 && answer.header("idempotent-replayed").is_none());
        }
        executions += executed;
        assert_eq!((executed, gate.executions()), (51, executions));
    }
    assert_eq!(gate.server.metric(r#"oncegate_store_errors_total{verb="claim",kind="unavailable"}"#).await, 0.0);
}

#[tokio::test]
async fn c79_repeats_that_wait_keep_nobody_else_from_the_store() {
    let mut gate = Gate::start("[defaults]\nwait = \"30s\"\n").await;
    let slow = post("/orders", "{}");
    let first = gate.send(slow.clone());
    let running = gate.service.call().await;
    let waiting: Vec<_> = (0..50).map(|_| gate.send(slow.clone())).collect();
    for key in ["K2", "K3", "K4", "K5", "K6"] {
        gate.exchange(post("/orders", "{}").key(key), reply(201, key)).await.is_executed(201, key);
    }
    let keyless = post("/orders", "{}").without("idempotency-key");
    gate.exchange(keyless, reply(201, "unguarded")).await.is_executed(201, "unguarded");
    running.answer(reply(201, "ordered"));
    first.await.unwrap().is_executed(201, "ordered");
    for repeat in waiting {
        repeat.await.unwrap().is_replay_of(201, "ordered");
    }
    assert_eq!(gate.executions(), 7);
}

#[tokio::test]
async fn c80_a_copy_in_memory_is_judged_by_the_body_as_the_record_is() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/orders", r#"{"qty":1}"#), reply(201, "ordered")).await.is_executed(201, "ordered");
    let cold = gate.another("").await;
    for address in [cold.address.clone(), gate.server.address.clone()] {
        for _ in 0..2 {
            gate.repeat_at(&address, post("/orders", r#"{"qty":2}"#)).await.problem(422, "mismatch");
            gate.repeat_at(&address, post("/orders", r#"{"qty":1}"#)).await.is_replay_of(201, "ordered");
        }
    }
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c81_two_gateways_on_one_store_are_one_guard() {
    let mut gate = Gate::start("").await;
    let other = gate.another("").await;
    gate.exchange(post("/settle", "{}"), reply(201, "settled")).await.is_executed(201, "settled");
    gate.repeat_at(&other.address, post("/settle", "{}")).await.is_replay_of(201, "settled");

    let settle = post("/settle", "{}").key("K2");
    let (mut one, mut two) = (gate.send(settle.clone()), gate.send_to(&other.address, settle));
    let call = gate.service.call().await;
    let (refused, executing) = tokio::select! {
        answer = &mut one => (answer, two),
        answer = &mut two => (answer, one),
    };
    refused.unwrap().problem(409, "in-flight");
    call.answer(reply(201, "settled once"));
    executing.await.unwrap().is_executed(201, "settled once");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c82_a_claim_that_was_given_up_is_never_executed_and_blocks_nobody() {
    // Some are given up by the store, which waits for half as long, and some by the gate.
    let mut gate = Gate::start_with("", &[("ONCEGATE__STORE__TIMEOUT", "500ms")]).await;
    let request = post("/orders", "{}");
    let lock = gate.lock_store();
    let sent: Vec<_> = (0..20).map(|_| gate.send(request.clone())).collect();
    for answer in sent {
        not_executed(&answer.await.unwrap());
    }
    assert_eq!(gate.executions(), 0);
    drop(lock);
    let address = gate.server.address.clone();
    let (sent, call) = gate.until_executed(&address, &request, not_executed).await;
    assert_eq!(call.header("oncegate-attempt"), Some("1"));
    call.answer(reply(201, "ordered"));
    sent.await.unwrap().is_executed(201, "ordered");
    gate.conclude(&request).await.is_replay_of(201, "ordered");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c82_a_completion_that_is_slow_is_repeated_until_it_is_stored() {
    let mut gate = Gate::start("").await;
    let request = post("/orders", "{}");
    let sent = gate.send(request.clone());
    let call = gate.service.call().await;
    let lock = gate.lock_store();
    call.answer(reply(201, "ordered"));
    sent.await.unwrap().is_executed(201, "ordered");
    let repeats: Vec<_> = (0..20).map(|_| gate.send(request.clone())).collect();
    for answer in repeats {
        not_executed(&answer.await.unwrap());
    }
    drop(lock);
    gate.conclude(&request).await.is_replay_of(201, "ordered");
    assert_eq!(gate.executions(), 1);
}
