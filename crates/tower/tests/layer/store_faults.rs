//! Stores that fail.

use std::time::Duration;

use oncegate_core::{State, StateName};
use oncegate_tower::{Outcome, UpstreamError, UpstreamErrorKind};

use crate::harness::{Fault, Gate, Whole, created, post, route, status};

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_refuses_keyed_requests_and_only_those() {
    let mut gate = Gate::new(route());
    for fault in [Fault::Before, Fault::Hangs] {
        gate.store.fault("claim", Some(fault));
        let whole = gate.repeat(post("k", "{}")).await;
        whole.problem(503, "store-unavailable");
        assert_eq!((whole.outcome, whole.header("retry-after")), (Outcome::Unavailable, Some("1")));
    }
    let mut unkeyed = post("k", "{}");
    unkeyed.headers_mut().remove("idempotency-key");
    assert_eq!(gate.exchange(unkeyed, created("paid")).await.status, 201);
    gate.store.fault("claim", None);
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_store_with_too_much_to_do_refuses_and_there_is_nothing_to_withdraw() {
    let mut gate = Gate::new(route());
    gate.store.fault("claim", Some(Fault::Overloaded));
    let whole = gate.repeat(post("k", "{}")).await;
    let problem = whole.problem(503, "overloaded");
    assert_eq!((&problem["retry"], whole.header("retry-after")), (&"same-key".into(), Some("1")));
    assert_eq!(whole.outcome, Outcome::Unavailable);
    gate.store.fault("claim", None);
    gate.handle.drained().await;
    assert_eq!(gate.store.count("withdraw"), 0, "nothing was applied, and the store has enough to do");
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_came_to_the_store_is_not_withdrawn() {
    let mut gate = Gate::new(route());
    gate.store.fault("claim", Some(Fault::Unreachable));
    gate.repeat(post("k", "{}")).await.problem(503, "store-unavailable");
    gate.handle.drained().await;
    assert_eq!(gate.store.count("withdraw"), 0, "each would be tried for the length of a lease");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_is_withdrawn() {
    let mut gate = Gate::new(route());
    gate.store.fault("claim", Some(Fault::After));
    gate.store.fault("withdraw", Some(Fault::Before));
    gate.repeat(post("k", "{}")).await.problem(503, "store-unavailable");
    assert!(!gate.store.is_empty().await);
    gate.store.fault("claim", None);
    gate.store.fault("withdraw", None);
    gate.handle.drained().await;
    assert!(gate.store.is_empty().await, "it would have ended as unknown");
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn repeats_of_a_failing_store_do_not_queue_up() {
    let mut gate = Gate::new(route());
    gate.store.fault("claim", Some(Fault::Hangs));
    let began = tokio::time::Instant::now();
    let answers: Vec<_> = (0..50).map(|_| gate.send(post("k", "{}"))).collect();
    for answer in answers {
        Whole::of(answer.await.unwrap()).await.problem(503, "store-unavailable");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "each waited for the one before: {:?}", began.elapsed());
    gate.store.fault("claim", None);
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_route_may_go_on_unguarded() {
    let mut route = route();
    route.fail_open = true;
    let mut gate = Gate::new(route);
    gate.store.fault("claim", Some(Fault::Before));
    let whole = gate.exchange(post("k", "{}"), created("paid")).await;
    assert_eq!((whole.status, whole.outcome), (201, Outcome::Bypassed));
    assert_eq!((whole.header("oncegate-failed-open"), gate.events.count("FailedOpen")), (Some("true"), 1));

    gate.store.fault("claim", Some(Fault::Hangs));
    let together: Vec<_> = (0..3).map(|_| gate.send(post("together", "{}"))).collect();
    for _ in 0..3 {
        gate.next_call().await.answer(created("paid"));
    }
    for each in together {
        let whole = Whole::of(each.await.unwrap()).await;
        assert_eq!(
            (whole.status, whole.header("oncegate-failed-open")),
            (201, Some("true")),
            "also who asked together"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_request_that_was_not_guarded_is_not_to_be_repeated_lightly() {
    let mut route = route();
    route.fail_open = true;
    let mut gate = Gate::new(route);
    gate.store.fault("claim", Some(Fault::Before));
    for (kind, retry) in [(UpstreamErrorKind::Failed, "operator"), (UpstreamErrorKind::Unreachable, "later")] {
        let sent = gate.send(post("k", "{}"));
        gate.next_call().await.fail(UpstreamError::new(kind, "gone"));
        let whole = Whole::of(sent.await.unwrap()).await;
        let document: serde_json::Value = serde_json::from_slice(&whole.body).unwrap();
        assert_eq!((whole.status, whole.outcome, &document["retry"]), (502, Outcome::Bypassed, &retry.into()));
        assert_eq!(whole.header("oncegate-failed-open"), Some("true"));
    }
    // Without a key the error leaves the layer as it is, and is counted.
    let mut unkeyed = post("k", "{}");
    unkeyed.headers_mut().remove("idempotency-key");
    let sent = gate.send(unkeyed);
    gate.next_call().await.fail(UpstreamError::timeout());
    assert!(sent.await.unwrap().is_err());
    assert_eq!(gate.events.count("Failed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_lost_after_the_execution_does_not_cost_the_client_its_answer() {
    let mut gate = Gate::new(route());
    gate.store.fault("complete", Some(Fault::Before));
    let first = gate.exchange(post("k", "{}"), created("paid")).await;
    assert_eq!((first.status, &first.body[..]), (201, &b"paid"[..]));
    // Much longer than the lease: nobody else may execute meanwhile.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    }
    gate.store.fault("complete", None);
    gate.handle.drained().await;
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
    assert_eq!(gate.executions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_reply_was_lost_is_a_success_when_it_is_sent_again() {
    let mut gate = Gate::new(route());
    gate.store.fault("complete", Some(Fault::After));
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
    assert!(matches!(gate.store.record().await.state, State::Completed { .. }));
    gate.store.fault("complete", None);
    gate.handle.drained().await;
    assert_eq!(gate.events.count("Stale"), 0);
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn releases_and_doubts_are_tried_again_too() {
    for (verb, code, state) in [("release", 503, None), ("doubt", 504, Some(StateName::Unknown))] {
        let mut gate = Gate::new(route());
        gate.store.fault(verb, Some(Fault::Before));
        assert_eq!(gate.exchange(post("k", "{}"), status(code, "no")).await.status, code);
        assert_eq!(gate.store.record().await.state.name(), StateName::InFlight);
        gate.store.fault(verb, None);
        gate.handle.drained().await;
        match state {
            None => assert!(gate.store.is_empty().await),
            Some(state) => assert_eq!(gate.store.record().await.state.name(), state),
        }
    }
}
