//! Many requests with one key.

use std::{sync::Arc, time::Duration};

use oncegate_core::{
    Store,
    fingerprint::{JsonPointer, Rules, RulesOptions},
};
use oncegate_tower::{
    Outcome, Routes, Settings,
    route::{Matcher, Pattern},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::harness::{Gate, Whole, created, idempotent, post, route, status};

#[tokio::test]
async fn of_300_repeats_one_executes_and_one_claim_reaches_the_store() {
    let mut gate = Gate::new(route());
    let mut answers: JoinSet<_> = (0..300).map(|_| gate.call(post("k", "{}"))).collect();
    let call = gate.next_call().await;
    for _ in 0..299 {
        let answer = timeout(Duration::from_secs(60), answers.join_next()).await.expect("a repeat waits for the first");
        let whole = Whole::of(answer.unwrap().unwrap()).await;
        whole.problem(409, "in-flight");
        assert_eq!(whole.header("retry-after"), Some("2"));
    }
    call.answer(created("paid"));
    assert_eq!(Whole::of(answers.join_next().await.unwrap().unwrap()).await.status, 201);
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
    assert_eq!((gate.executions(), gate.store.count("claim")), (1, 1));
}

#[tokio::test]
async fn quoted_and_bare_keys_are_one_key() {
    let mut gate = Gate::new(route());
    gate.exchange(post("\"k\"", "{}"), created("paid")).await;
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test]
async fn another_body_is_a_mismatch_while_the_first_runs_and_afterwards() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", r#"{"amount":100}"#));
    let call = gate.next_call().await;
    let problem = gate.repeat(post("k", r#"{"amount":900}"#)).await.problem(422, "mismatch");
    assert_eq!((&problem["first_request"], &problem["state"]), (&"POST /payments".into(), &"in_flight".into()));
    assert!(!problem.to_string().contains("100"), "the first payload leaks");
    gate.repeat(post("k", r#"{"amount":100}"#)).await.problem(409, "in-flight");
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    gate.repeat(post("k", r#"{"amount":900}"#)).await.problem(422, "mismatch");
    assert!(gate.repeat(post("k", r#"{ "amount" : 100 }"#)).await.is_replay());
    gate.repeat(post("k", r#"{"amount":900}"#)).await.problem(422, "mismatch");
}

#[tokio::test]
async fn another_caller_with_the_same_key_is_another_record() {
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), created("for A")).await;
    let mut request = post("k", "{}");
    request.headers_mut().insert("authorization", "Bearer B".parse().unwrap());
    let whole = gate.exchange(request, created("for B")).await;
    assert_eq!((whole.outcome, &whole.body[..]), (Outcome::Executed, &b"for B"[..]));
}

#[tokio::test]
async fn a_credential_that_changes_between_retries_is_reported() {
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), created("paid")).await;
    gate.repeat(post("k", "{}")).await;
    assert_eq!(gate.events.count("SplitScope"), 0);
    let with = |credential: &str, body| {
        let mut request = post("k", body);
        request.headers_mut().insert("authorization", credential.parse().unwrap());
        request
    };
    gate.exchange(with("Bearer rotated", "{}"), created("paid again")).await;
    assert_eq!(gate.events.count("SplitScope"), 1);
    gate.exchange(with("Bearer C", r#"{"another":"payment"}"#), created("paid")).await;
    assert_eq!(gate.events.count("SplitScope"), 1, "two callers may choose the same key");
}

#[tokio::test]
async fn a_client_that_makes_a_new_key_for_each_repeat_is_reported() {
    let mut gate = Gate::new(route());
    let told = |gate: &Gate| gate.events.count("Suspected");
    gate.exchange(post("k1", "{}"), created("paid")).await;
    gate.repeat(post("k1", "{}")).await;
    gate.exchange(post("k2", r#"{"another":"payment"}"#), created("paid")).await;
    let mut other_caller = post("k3", "{}");
    other_caller.headers_mut().insert("authorization", "Bearer B".parse().unwrap());
    gate.exchange(other_caller, created("paid for another")).await;
    assert_eq!(told(&gate), 0);
    gate.exchange(post("k4", "{}"), status(503, "no")).await;
    gate.exchange(post("k5", "{}"), status(402, "no")).await;
    assert_eq!(told(&gate), 0, "what was given back or refused has no effect that could double");
    gate.exchange(post("k6", "{}"), created("paid again")).await;
    assert_eq!(told(&gate), 1);
    gate.repeat(post("k6", "{}")).await;
    assert_eq!(told(&gate), 1);
    gate.exchange(post("k7", "{}"), status(502, "no")).await;
    assert_eq!(told(&gate), 2, "nobody knows whether it was paid");

    let settings = Settings { suspect_window: Duration::ZERO, ..Settings::default() };
    let mut gate = Gate::with_routes(Arc::default(), Routes::all(route()), settings);
    gate.exchange(post("k1", "{}"), created("paid")).await;
    gate.exchange(post("k2", "{}"), created("paid")).await;
    assert_eq!(told(&gate), 0, "it was not asked for");
}

#[tokio::test]
async fn a_key_used_on_another_endpoint_is_a_mismatch() {
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), created("paid")).await;
    let mut request = post("k", "{}");
    *request.uri_mut() = "/payments/1/refund".parse().unwrap();
    let problem = gate.repeat(request).await.problem(422, "mismatch");
    assert!(problem["detail"].as_str().unwrap().contains("POST /payments (completed)"), "{problem}");
}

#[tokio::test]
async fn a_key_used_on_a_route_with_other_rules_is_a_mismatch_too() {
    let ignore = vec![JsonPointer::parse("/sent_at").unwrap()];
    let mut refunds = oncegate_tower::Route::gateway("refunds", oncegate_core::Backend::Plain);
    refunds.rules = Arc::new(Rules::new(&RulesOptions { ignore, ..RulesOptions::default() }).unwrap());
    let matcher = Matcher { method: None, path: Pattern::parse("/payments/*/refund").unwrap() };
    let routes = Routes::all(route()).with(matcher, refunds);
    let mut gate = Gate::with_routes(Arc::default(), routes, Settings::default());
    gate.exchange(post("k", "{}"), created("paid")).await;
    let mut request = post("k", "{}");
    *request.uri_mut() = "/payments/1/refund".parse().unwrap();
    let problem = gate.repeat(request).await.problem(422, "mismatch");
    assert_eq!(problem["first_request"], "POST /payments");
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test]
async fn answers_are_decided_in_the_order_that_clients_rely_on() {
    let mut route = route();
    route.max_request_body = 10;
    let mut gate = Gate::new(route);
    let first = gate.send(post("k", r#"{"a":1}"#));
    let call = gate.next_call().await;
    let refused = async |gate: &mut Gate| {
        gate.repeat(post("a b", "too long for it")).await.problem(400, "key-invalid");
        gate.repeat(post("k", "too long for it")).await.problem(413, "request-too-large");
        gate.repeat(post("k", r#"{"a":2}"#)).await.problem(422, "mismatch");
    };
    refused(&mut gate).await;
    gate.repeat(post("k", r#"{"a":1}"#)).await.problem(409, "in-flight");
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    refused(&mut gate).await;
    assert!(gate.repeat(post("k", r#"{"a":1}"#)).await.is_replay());
}

#[tokio::test]
async fn requests_without_a_key_are_never_held_back() {
    let mut gate = Gate::new(route());
    for _ in 0..2 {
        let mut request = post("k", "{}");
        request.headers_mut().remove("idempotency-key");
        let whole = gate.exchange(request, created("paid")).await;
        assert_eq!((whole.outcome, whole.header("idempotency-expires")), (Outcome::Bypassed, None));
    }
    assert_eq!((gate.executions(), gate.store.count("claim")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_repeat_gets_the_replay_when_the_first_ends() {
    let mut gate = Gate::new(waiting(Duration::from_secs(5)));
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    let followers: Vec<_> = (0..20).map(|_| gate.send(post("k", "{}"))).collect();
    let other = gate.send(post("k", r#"{"other":1}"#));
    Whole::of(other.await.unwrap()).await.problem(422, "mismatch");
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    for follower in followers {
        let whole = Whole::of(follower.await.unwrap()).await;
        assert!(whole.is_replay() && &whole.body[..] == b"paid");
    }
    assert_eq!((gate.executions(), gate.store.count("claim")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_repeat_gets_409_when_its_time_is_over() {
    let mut gate = Gate::new(waiting(Duration::from_secs(2)));
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_repeats_than_may_wait_get_409_at_once() {
    let routes = Routes::all(waiting(Duration::from_secs(5)));
    let settings = Settings { waiters_max: 2, ..Settings::default() };
    let mut gate = Gate::with_routes(Arc::default(), routes.clone(), settings.clone());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    let mut waiters: Vec<_> = (0..2).map(|_| gate.send(post("k", "{}"))).collect();
    // Let them begin to wait.
    tokio::time::advance(Duration::from_millis(1)).await;
    let began = Instant::now();
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    assert_eq!(began.elapsed(), Duration::ZERO, "it waited all the same");

    // One who leaves makes room for another.
    waiters.remove(0).abort();
    tokio::time::advance(Duration::from_millis(1)).await;
    waiters.push(gate.send(post("k", "{}")));
    tokio::time::advance(Duration::from_millis(1)).await;
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");

    // The limit holds for repeats of what another process executes, too.
    let mut other = Gate::with_routes(gate.store.clone(), routes, Settings { waiters_max: 0, ..settings });
    let began = Instant::now();
    other.repeat(post("k", "{}")).await.problem(409, "in-flight");
    assert_eq!(began.elapsed(), Duration::ZERO, "it waited all the same");

    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    for waiter in waiters {
        assert!(Whole::of(waiter.await.unwrap()).await.is_replay());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_release_exactly_one_of_the_waiting_repeats_executes() {
    let mut gate = Gate::new(waiting(Duration::from_secs(5)));
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    let followers: Vec<_> = (0..20).map(|_| gate.send(post("k", "{}"))).collect();
    // Let them all begin to wait.
    tokio::time::advance(Duration::from_millis(1)).await;
    call.answer(status(503, "later"));
    assert_eq!(Whole::of(first.await.unwrap()).await.status, 503);
    gate.next_call().await.answer(created("paid"));
    let mut executed = 0;
    for follower in followers {
        let whole = Whole::of(follower.await.unwrap()).await;
        assert_eq!((whole.status, &whole.body[..]), (201, &b"paid"[..]));
        executed += usize::from(whole.outcome == Outcome::Executed);
    }
    assert_eq!((executed, gate.executions()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_waits_for_another_process_too() {
    let mut first_gate = Gate::new(waiting(Duration::from_secs(5)));
    let mut second_gate = Gate::before(first_gate.store.clone(), waiting(Duration::from_secs(5)));
    let first = first_gate.send(post("k", "{}"));
    let call = first_gate.next_call().await;
    let repeat = second_gate.send(post("k", "{}"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!repeat.is_finished());
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    assert!(Whole::of(repeat.await.unwrap()).await.is_replay());
    assert_eq!(second_gate.executions(), 0);
    assert!(second_gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_for_another_process_ask_the_store_together() {
    const REPEATS: usize = 50;
    let mut first_gate = Gate::new(waiting(Duration::from_secs(10)));
    let second_gate = Gate::before(first_gate.store.clone(), waiting(Duration::from_secs(10)));
    let first = first_gate.send(post("k", "{}"));
    let call = first_gate.next_call().await;
    let mut repeats = Vec::new();
    for _ in 0..REPEATS {
        repeats.push(second_gate.send(post("k", "{}")));
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    call.answer(created("paid"));
    first.await.unwrap().unwrap();
    for repeat in repeats {
        assert!(Whole::of(repeat.await.unwrap()).await.is_replay());
    }
    // Each when it comes; then all of them every 50 ms at first and every 400 ms in the end.
    let asked = second_gate.store.count("claim") - 1;
    assert!(asked <= REPEATS + 40, "{asked} questions");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_executes_nothing_answers_409_for_another_one() {
    let mut first_gate = Gate::new(route());
    let mut second_gate = Gate::before(first_gate.store.clone(), route());
    let _first = first_gate.send(post("k", "{}"));
    let _call = first_gate.next_call().await;
    second_gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    second_gate.repeat(post("k", "{\"other\":1}")).await.problem(422, "mismatch");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_told_one_body_is_not_told_to_another() {
    let mut executor = Gate::new(route());
    executor.exchange(post("k", "{}"), created("paid")).await;
    let gate = Gate::before(executor.store.clone(), route());
    gate.store.hold(Some("claim"));
    let first = gate.send(post("k", "{}"));
    let others: Vec<_> = (0..5).map(|_| gate.send(post("k", r#"{"other":1}"#))).collect();
    // Let them all arrive while the store is being asked for the first one.
    tokio::time::advance(Duration::from_millis(1)).await;
    gate.store.hold(None);
    assert!(Whole::of(first.await.unwrap()).await.is_replay());
    for other in others {
        Whole::of(other.await.unwrap()).await.problem(422, "mismatch");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_record_is_remembered_for_at_most_five_seconds() {
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), created("paid")).await;
    tokio::time::advance(Duration::from_millis(4_900)).await;
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
    assert_eq!(gate.store.count("claim"), 1);
    tokio::time::advance(Duration::from_millis(200)).await;
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
    assert_eq!(gate.store.count("claim"), 2, "an operator's purge must take effect");
}

#[tokio::test]
async fn a_memory_of_no_bytes_remembers_nothing() {
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    let mut gate = Gate::with_routes(Arc::default(), Routes::all(route()), settings);
    gate.exchange(post("k", "{}"), created("paid")).await;
    for claims in [2, 3] {
        assert!(gate.repeat(post("k", "{}")).await.is_replay());
        assert_eq!(gate.store.count("claim"), claims, "each repeat asks the store");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_retention_the_key_is_new() {
    let mut gate = Gate::new(idempotent());
    gate.exchange(post("k", "{}"), created("first")).await;
    tokio::time::advance(Duration::from_hours(24)).await;
    let whole = gate.exchange(post("k", r#"{"other":1}"#), created("second")).await;
    assert_eq!((whole.outcome, &whole.body[..]), (Outcome::Executed, &b"second"[..]));
}

#[tokio::test(start_paused = true)]
async fn c85_a_redelivery_after_days_gets_the_same_answer_and_after_the_retention_executes() {
    let mut route = route();
    route.policy = Arc::new({
        let mut policy = (*route.policy).clone();
        policy.retention = Duration::from_hours(7 * 24);
        policy
    });
    let mut gate = Gate::new(route);
    let message = || post("payroll:co1:2025-03:SAL:h1", r#"{"amount":5}"#);
    gate.exchange(message(), created("booked")).await;
    for hours in [0, 26, 6 * 24 - 26, 23] {
        tokio::time::advance(Duration::from_hours(hours) + Duration::from_secs(1)).await;
        gate.store.records.reap(10).await.unwrap();
        let again = gate.repeat(message()).await;
        assert!(again.is_replay() && &again.body[..] == b"booked", "{hours} h later: {again:?}");
    }
    tokio::time::advance(Duration::from_hours(1)).await;
    let late = gate.exchange(message(), created("booked twice")).await;
    assert_eq!((late.outcome, &late.body[..]), (Outcome::Executed, &b"booked twice"[..]));
}

fn waiting(wait: Duration) -> oncegate_tower::Route {
    let mut route = route();
    route.wait = wait;
    route
}
