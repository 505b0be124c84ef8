//! C07 to C14: workers that die, sleep or are late.

use std::time::Duration;

use oncegate_core::{Clock, State, SystemClock};
use rustix::process::Signal;

use crate::harness::{Answer, Call, Gate, post, refusal, reply};

const SHORT_LEASE: &str = "[defaults]\nlease = \"300ms\"\n";
const SHORT_LEASE_AND_TAKEOVER: &str = "[defaults]\nlease = \"1s\"\nbackend = \"idempotent\"\n";

fn fence(call: &Call) -> u64 {
    call.header("oncegate-fence").unwrap().parse().unwrap()
}

/// Whether anything was sent is not written down, so both end alike: a plain backend is not asked again.
#[cfg(feature = "crash-points")]
#[tokio::test]
async fn c07_a_crash_between_claim_and_answer_ends_as_unknown_and_not_in_flight_for_ever() {
    let mut gate = Gate::start_with(SHORT_LEASE, &[("ONCEGATE_CRASH_AT", "claimed:1")]).await;
    let unsent = post("/payments", r#"{"amount":1}"#);
    assert!(gate.send(unsent.clone()).await.is_err(), "the gate dies before it forwards");
    gate.server.died().await;
    gate.restart(SHORT_LEASE).await;
    gate.conclude(&unsent).await.problem(409, "unknown");
    assert_eq!(gate.executions(), 0);

    gate.server.kill().await;
    gate.server = gate.another_with(SHORT_LEASE, &[("ONCEGATE_CRASH_AT", "before_complete:1")]).await;
    let executed = post("/payments", r#"{"amount":2}"#).key("K2");
    let sent = gate.send(executed.clone());
    gate.service.call().await.answer(reply(201, "paid"));
    assert!(sent.await.is_err(), "the gate dies before it completes");
    gate.server.died().await;
    gate.restart(SHORT_LEASE).await;
    let problem = gate.conclude(&executed).await.problem(409, "unknown");
    assert_eq!((problem["retry"].as_str(), problem["reason"].as_str()), (Some("operator"), Some("worker died")));
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c08_the_lease_is_not_the_lifetime_of_the_answer() {
    let config = "[defaults]\nlease = \"300ms\"\nretention = \"24h\"\n";
    let mut gate = Gate::start(config).await;
    let cut = post("/payments", r#"{"amount":1}"#);
    let sent = gate.send(cut.clone());
    let _never_answered = gate.service.call().await;
    gate.restart(config).await;
    assert!(sent.await.is_err());
    gate.conclude(&cut).await.problem(409, "unknown");

    let failing = post("/payments", r#"{"amount":2}"#).key("K2");
    gate.exchange(failing.clone(), reply(500, "the receipt was not sent")).await;
    gate.repeat(failing).await.is_replay_of(500, "the receipt was not sent");
    assert_eq!(gate.executions(), 2);

    let said = refusal("[defaults]\nlease = \"2m\"\nretention = \"1m\"\n").await;
    assert!(said.contains("the record must outlive its lease"), "{said}");
}

#[tokio::test]
async fn c09_each_route_says_whether_an_abandoned_request_runs_again() {
    let config = r#"
        [defaults]
        lease = "300ms"
        [[route]]
        name = "never-again"
        match = "POST /withdrawals"
        on_abandoned = "unknown"
        [[route]]
        name = "again"
        match = "POST /syncs"
        on_abandoned = "takeover"
    "#;
    let mut gate = Gate::start(config).await;
    let (withdrawal, sync) = (post("/withdrawals", "{}"), post("/syncs", "{}").key("K2"));
    let sent = [gate.send(withdrawal.clone()), gate.send(sync.clone())];
    let _never_answered = [gate.service.call().await, gate.service.call().await];
    // Whoever takes over has all the time that it needs.
    gate.restart(&config.replace("300ms", "60s")).await;
    for each in sent {
        assert!(each.await.is_err());
    }
    gate.conclude(&withdrawal).await.problem(409, "unknown");

    let address = gate.server.address.clone();
    let in_flight = |answer: &Answer| drop(answer.problem(409, "in-flight"));
    let (taken, call) = gate.until_executed(&address, &sync, in_flight).await;
    assert_eq!(call.header("oncegate-attempt"), Some("2"));
    let others: Vec<_> = (0..5).map(|_| gate.send(sync.clone())).collect();
    for other in others {
        other.await.unwrap().problem(409, "in-flight");
    }
    call.answer(reply(200, "synced"));
    taken.await.unwrap().is_executed(200, "synced");
    gate.repeat(sync).await.is_replay_of(200, "synced");
    gate.repeat(withdrawal).await.problem(409, "unknown");
    assert_eq!(gate.executions(), 3);
}

#[tokio::test]
async fn c10_a_late_owner_neither_completes_nor_releases_what_was_taken_over() {
    let mut gate = Gate::start(SHORT_LEASE_AND_TAKEOVER).await;
    // Whoever takes over has all the time that it needs.
    let taker = gate.another(&SHORT_LEASE_AND_TAKEOVER.replace("1s", "60s")).await;
    let request = post("/payments", "{}");
    let late = gate.send(request.clone());
    let first = gate.service.call().await;
    gate.server.signal(Signal::STOP);
    let in_flight = |answer: &Answer| drop(answer.problem(409, "in-flight"));
    let (taken, second) = gate.until_executed(&taker.address, &request, in_flight).await;
    assert!(fence(&second) > fence(&first));
    assert_eq!(first.header("oncegate-record"), second.header("oncegate-record"));

    first.answer(reply(201, "first"));
    gate.server.signal(Signal::CONT);
    late.await.unwrap().problem(409, "in-flight");
    gate.repeat_at(&taker.address, request.clone()).await.problem(409, "in-flight");
    let stale = ["extend", "complete"].map(|verb| format!("oncegate_stale_writes_total{{verb=\"{verb}\"}}"));
    assert!(gate.server.metric(&stale[0]).await + gate.server.metric(&stale[1]).await > 0.0);

    second.answer(reply(201, "second"));
    taken.await.unwrap().is_executed(201, "second");
    gate.repeat_at(&taker.address, request.clone()).await.is_replay_of(201, "second");
    gate.repeat(request).await.is_replay_of(201, "second");
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c11_a_dead_worker_is_in_flight_for_its_lease_and_unknown_from_then_on() {
    let config = "[defaults]\nlease = \"60s\"\n";
    let mut gate = Gate::start(config).await;
    let survivor = gate.another(config).await;
    let request = post("/messages", "{}");
    let sent = gate.send(request.clone());
    let _never_answered = gate.service.call().await;
    gate.server.kill().await;
    assert!(sent.await.is_err());
    gate.server = survivor;
    let told = gate.repeat(request.clone()).await;
    told.problem(409, "in-flight");
    let retry_after: u64 = told.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    gate.end_leases();
    for _ in 0..3 {
        gate.conclude(&request).await.problem(409, "unknown");
    }
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c13_a_record_that_is_settled_late_lives_for_its_whole_retention() {
    let mut gate = Gate::start(SHORT_LEASE).await;
    let request = post("/payments", "{}");
    let sent = gate.send(request.clone());
    let call = gate.service.call().await;
    gate.server.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(400)).await;
    call.hang_up();
    gate.server.signal(Signal::CONT);
    sent.await.unwrap().problem(502, "upstream-failed");
    let records = gate.records().await;
    let [record] = &records[..] else { panic!("{records:?}") };
    assert!(matches!(record.state, State::Unknown { .. }), "{record:?}");
    assert!(record.expires_at.since(SystemClock.now()) > Duration::from_hours(23), "{record:?}");
    gate.repeat(request).await.problem(409, "unknown");
    assert_eq!(gate.executions(), 1);
}
