//! How executions end.

use std::{sync::Arc, time::Duration};

use oncegate_core::{
    DoubtReason, State, StateName,
    fingerprint::{JsonPointer, Rules, RulesOptions},
};
use oncegate_tower::{Outcome, Route, Routes, UpstreamError, UpstreamErrorKind};

use crate::harness::{Gate, Whole, created, idempotent, post, route, status};

#[tokio::test]
async fn decisions_are_stored() {
    for code in [200, 204, 303, 400, 402, 404, 409, 422, 500, 501] {
        let mut gate = Gate::new(route());
        let first = gate.exchange(post("k", "{}"), status(code, "decided")).await;
        assert_eq!((first.status, first.outcome), (code, Outcome::Executed));
        let second = gate.repeat(post("k", "{}")).await;
        assert_eq!((second.status, &second.body[..]), (code, &b"decided"[..]));
        assert!(second.is_replay());
    }
}

#[tokio::test]
async fn refusals_are_released() {
    for code in [401, 403, 407, 408, 425, 429, 503] {
        let mut gate = Gate::new(route());
        assert_eq!(gate.exchange(post("k", "{}"), status(code, "not now")).await.status, code);
        assert!(gate.store.is_empty().await, "{code}");
        let second = gate.exchange(post("k", r#"{"other":1}"#), created("paid")).await;
        assert_eq!((second.status, second.outcome), (201, Outcome::Executed));
    }
}

#[tokio::test]
async fn an_ambiguous_answer_of_a_plain_backend_is_unknown_at_once() {
    for code in [502, 504] {
        let mut gate = Gate::new(route());
        assert_eq!(gate.exchange(post("k", "{}"), status(code, "?")).await.status, code);
        let problem = gate.repeat(post("k", "{}")).await.problem(409, "unknown");
        assert_eq!((&problem["retry"], &problem["reason"]), (&"operator".into(), &format!("status {code}").into()));
        gate.repeat(post("k", r#"{"other":1}"#)).await.problem(422, "mismatch");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_answer_of_an_idempotent_backend_is_taken_over_after_its_lease() {
    let mut gate = Gate::new(idempotent());
    gate.exchange(post("\"k\"", "{}"), status(504, "?")).await;
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    tokio::time::advance(Duration::from_secs(30)).await;
    let repeat = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    assert_eq!(call.headers.get("oncegate-attempt").unwrap(), "2");
    assert_eq!(call.headers.get("idempotency-key").unwrap(), "\"k\"", "the first spelling is kept");
    call.answer(created("paid"));
    assert_eq!(Whole::of(repeat.await.unwrap()).await.status, 201);
    assert_eq!(gate.events.count("TakenOver"), 1);
}

#[tokio::test]
async fn what_was_never_sent_is_released() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    gate.next_call().await.fail(UpstreamError::new(UpstreamErrorKind::Unreachable, "connection refused"));
    let problem = Whole::of(first.await.unwrap()).await.problem(502, "upstream-unreachable");
    assert_eq!(problem["retry"], "same-key");
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test]
async fn an_answer_that_was_lost_before_a_plain_backend_is_unknown() {
    let faults = [
        (UpstreamErrorKind::Failed, 502, "upstream-failed", DoubtReason::RESET),
        (UpstreamErrorKind::Timeout, 504, "upstream-timeout", DoubtReason::TIMEOUT),
    ];
    for (kind, code, name, reason) in faults {
        let mut gate = Gate::new(route());
        let first = gate.send(post("k", "{}"));
        gate.next_call().await.fail(UpstreamError::new(kind, "gone"));
        let problem = Whole::of(first.await.unwrap()).await.problem(code, name);
        assert_eq!(problem["retry"], "operator");
        let problem = gate.repeat(post("k", "{}")).await.problem(409, "unknown");
        assert_eq!(problem["reason"], reason.as_str());
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_before_an_idempotent_backend_may_be_repeated() {
    let mut gate = Gate::new(idempotent());
    let first = gate.send(post("k", "{}"));
    gate.next_call().await.fail(UpstreamError::new(UpstreamErrorKind::Failed, "gone"));
    let problem = Whole::of(first.await.unwrap()).await.problem(502, "upstream-failed");
    assert_eq!(problem["retry"], "same-key");
    assert_eq!(gate.store.record().await.state.name(), StateName::InFlight);
}

#[tokio::test]
async fn what_a_status_proves_depends_on_the_backend() {
    use oncegate_core::Backend::{Idempotent, Transactional};
    let (released, in_flight) = (None, Some(StateName::InFlight));
    for (backend, code, state) in [
        // Without its own completion nothing committed.
        (Transactional, 500, released),
        (Transactional, 501, released),
        (Transactional, 503, released),
        // A hop in between may say these.
        (Transactional, 502, in_flight),
        (Transactional, 504, in_flight),
        // Perhaps about an earlier attempt.
        (Transactional, 409, in_flight),
        (Idempotent, 409, in_flight),
        (Idempotent, 425, in_flight),
        (Idempotent, 502, in_flight),
        (Idempotent, 500, Some(StateName::Completed)),
    ] {
        let mut gate = Gate::new(Route::gateway("payments", backend));
        assert_eq!(gate.exchange(post("k", "{}"), status(code, "?")).await.status, code);
        let found = if gate.store.is_empty().await { None } else { Some(gate.store.record().await.state.name()) };
        assert_eq!(found, state, "{backend:?} {code}");
    }
}

#[tokio::test]
async fn a_timeout_around_a_handler_leaves_an_unknown_record() {
    let mut gate = Gate::new(Route::layer("payments", oncegate_core::Backend::Plain));
    assert_eq!(gate.exchange(post("k", "{}"), status(408, "too slow")).await.status, 408);
    let problem = gate.repeat(post("k", "{}")).await.problem(409, "unknown");
    assert_eq!(problem["reason"], "status 408");
}

#[tokio::test]
async fn a_handler_that_may_be_repeated_fails_without_a_doubt() {
    for is_panic in [false, true] {
        let mut gate = Gate::new(idempotent());
        let first = gate.send(post("k", "{}"));
        let call = gate.next_call().await;
        if is_panic {
            call.panic()
        } else {
            call.fail("a bug")
        }
        assert_eq!(first.await.unwrap().is_err(), !is_panic);
        gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
        assert_eq!(gate.store.count("doubt"), 0);
    }
}

#[tokio::test]
async fn a_handler_that_fails_or_panics_leaves_an_unknown_record() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("failed", "{}"));
    gate.next_call().await.fail("a bug");
    assert_eq!(first.await.unwrap().unwrap_err().to_string(), "a bug", "the error reaches its caller unchanged");
    gate.repeat(post("failed", "{}")).await.problem(409, "unknown");

    let first = gate.send(post("panicked", "{}"));
    gate.next_call().await.panic();
    Whole::of(first.await.unwrap()).await.problem(502, "upstream-failed");
    let problem = gate.repeat(post("panicked", "{}")).await.problem(409, "unknown");
    assert_eq!(problem["reason"], "handler failed");
}

#[tokio::test]
async fn the_word_of_a_guard_behind_us_is_never_stored() {
    let mut gate = Gate::new(route());
    let mut in_flight = status(409, "{}");
    in_flight.headers_mut().insert("oncegate-problem", "in-flight".parse().unwrap());
    assert_eq!(gate.exchange(post("k", "{}"), in_flight).await.status, 409);
    assert!(gate.store.is_empty().await);
    let mut lost = status(502, "{}");
    lost.headers_mut().insert("oncegate-problem", "upstream-failed".parse().unwrap());
    gate.exchange(post("k", "{}"), lost).await;
    assert_eq!(gate.store.record().await.state.name(), StateName::Unknown);
}

#[tokio::test]
async fn a_long_body_is_spooled_and_reaches_the_handler_whole() {
    let body: &'static str = Box::leak("x".repeat(3 * 1024 * 1024).into_boxed_str());
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", body));
    let call = gate.next_call().await;
    assert!(call.body == body.as_bytes());
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    assert!(gate.repeat(post("k", body)).await.is_replay());
    gate.repeat(post("k", &body[1..])).await.problem(422, "mismatch");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_the_claim() {
    let mut route = route();
    route.max_request_body = 10;
    let mut gate = Gate::new(route);
    gate.repeat(post("k", "0123456789a")).await.problem(413, "request-too-large");
    let mut declared = post("k", "");
    declared.headers_mut().insert("content-length", "11".parse().unwrap());
    gate.repeat(declared).await.problem(413, "request-too-large");
    assert_eq!(gate.store.count("claim"), 0);
    assert_eq!(gate.exchange(post("k", "0123456789"), created("paid")).await.status, 201);
}

#[tokio::test]
async fn a_bad_key_is_refused_before_the_body() {
    let mut gate = Gate::new(route());
    let long = "k".repeat(256);
    for (key, name) in [("", "key-invalid"), (&long, "key-invalid"), ("a,b", "key-repeated"), ("\"a", "key-invalid")] {
        let problem = gate.repeat(post(key, "{}")).await.problem(400, name);
        assert!(!problem.to_string().contains(&"k".repeat(10)), "the key is echoed");
    }
    let mut twice = post("k", "{}");
    twice.headers_mut().append("idempotency-key", "k".parse().unwrap());
    gate.repeat(twice).await.problem(400, "key-repeated");
}

#[tokio::test]
async fn an_answered_request_is_reported_with_its_outcome() {
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), created("paid")).await;
    gate.repeat(post("k", "{}")).await;
    let counted = ["Answered", "Claimed", "Executed", "Completed", "Coalesced"].map(|name| gate.events.count(name));
    assert_eq!(counted, [2, 1, 1, 1, 1]);
    assert!(matches!(gate.store.record().await.state, State::Completed { status: 201, .. }));
}

#[tokio::test]
async fn a_record_of_an_earlier_configuration_is_compared_under_its_own_rules() {
    let ignoring = |pointer: &str| {
        let ignore = vec![JsonPointer::parse(pointer).unwrap()];
        let mut route = route();
        route.rules = Arc::new(Rules::new(&RulesOptions { ignore, ..RulesOptions::default() }).unwrap());
        Routes::all(route)
    };
    let mut gate = Gate::new(route());
    gate.exchange(post("k", r#"{"a":1,"sent_at":1}"#), created("paid")).await;
    for pointer in ["/sent_at", "/other"] {
        gate.handle.set_routes(ignoring(pointer));
        assert!(gate.repeat(post("k", r#"{"sent_at":1,"a":1}"#)).await.is_replay(), "{pointer}");
        gate.repeat(post("k", r#"{"a":1,"sent_at":2}"#)).await.problem(422, "mismatch");
    }
    // The route that such requests have by now may have another name.
    let mut renamed = route();
    renamed.name = "renamed".into();
    gate.handle.set_routes(Routes::all(renamed));
    assert!(gate.repeat(post("k", r#"{"sent_at":1,"a":1}"#)).await.is_replay());
    gate.handle.set_routes(ignoring("/other"));
    assert!(gate.repeat(post("k", r#"{"sent_at":1,"a":1}"#)).await.is_replay());

    gate.exchange(post("new", r#"{"a":1,"other":1}"#), created("paid")).await;
    assert!(gate.repeat(post("new", r#"{"a":1,"other":2}"#)).await.is_replay());

    // Another process knows nothing of earlier rules: neither replayed nor executed.
    let mut stranger = Gate::before(gate.store.clone(), route());
    stranger.repeat(post("new", r#"{"a":1,"other":1}"#)).await.problem(409, "rules-changed");
}
