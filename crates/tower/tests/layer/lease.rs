//! Leases that are extended, lost and taken over.

use std::time::Duration;

use oncegate_core::{State, StateName, Store};

use crate::harness::{Fault, Gate, Whole, created, idempotent, post, route};

#[tokio::test(start_paused = true)]
async fn the_lease_is_extended_while_the_handler_runs() {
    let mut gate = Gate::new(idempotent());
    let mut other = Gate::before(gate.store.clone(), idempotent());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        other.repeat(post("k", "{}")).await.problem(409, "in-flight");
        gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    }
    call.answer(created("paid"));
    assert_eq!(Whole::of(first.await.unwrap()).await.status, 201);
    assert_eq!((gate.executions(), other.executions()), (1, 0));
    let extended = gate.store.count("extend");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gate.store.count("extend"), extended, "nothing is extended after the end");
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_tried_again_soon_when_the_store_fails() {
    let mut gate = Gate::new(idempotent());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    gate.store.fault("extend", Some(Fault::Before));
    tokio::time::sleep(Duration::from_secs(25)).await;
    gate.store.fault("extend", None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(matches!(gate.store.record().await.state, State::InFlight { .. }));
    let mut other = Gate::before(gate.store.clone(), idempotent());
    other.repeat(post("k", "{}")).await.problem(409, "in-flight");
    call.answer(created("paid"));
    assert_eq!(Whole::of(first.await.unwrap()).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_stops_and_answers_what_the_record_says() {
    let mut zombie = Gate::new(idempotent());
    let first = zombie.send(post("k", "{}"));
    let mut call = zombie.next_call().await;
    // The store is out of reach for longer than the lease: another process takes over.
    zombie.store.hold(Some("extend"));
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut taker = Gate::before(zombie.store.clone(), idempotent());
    let whole = taker.exchange(post("k", "{}"), created("the taker's")).await;
    assert_eq!(whole.status, 201);
    zombie.store.hold(None);
    call.is_dropped().await;
    let whole = Whole::of(first.await.unwrap()).await;
    assert!(whole.is_replay() && &whole.body[..] == b"the taker's", "{whole:?}");
    assert_eq!(zombie.events.count("Stale"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_completion_after_a_takeover_is_not_answered_as_ours() {
    let mut zombie = Gate::new(idempotent());
    let first = zombie.send(post("k", "{}"));
    let call = zombie.next_call().await;
    zombie.store.hold(Some("extend"));
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut taker = Gate::before(zombie.store.clone(), idempotent());
    let second = taker.send(post("k", "{}"));
    let taken = taker.next_call().await;
    call.answer(created("the zombie's"));
    Whole::of(first.await.unwrap()).await.problem(409, "in-flight");
    taken.answer(created("the taker's"));
    let whole = Whole::of(second.await.unwrap()).await;
    assert_eq!((whole.status, &whole.body[..]), (201, &b"the taker's"[..]));
    assert!(zombie.repeat(post("k", "{}")).await.body == "the taker's");
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_releases_a_running_record_stops_the_work() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let mut call = gate.next_call().await;
    gate.store.purge_by_force().await;
    call.is_dropped().await;
    Whole::of(first.await.unwrap()).await.problem(409, "in-flight");
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_whose_record_became_unknown_may_still_complete_it() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    gate.store.fault("extend", Some(Fault::Before));
    tokio::time::sleep(Duration::from_secs(31)).await;
    gate.store.records.reap(10).await.unwrap();
    gate.store.fault("extend", None);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(gate.store.record().await.state.name(), StateName::Unknown);
    call.answer(created("paid"));
    assert_eq!(Whole::of(first.await.unwrap()).await.status, 201);
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn a_local_entry_dies_with_its_lease() {
    let mut gate = Gate::new(idempotent());
    let _first = gate.send(post("k", "{}"));
    let mut call = gate.next_call().await;
    gate.store.hold(Some("extend"));
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    assert_eq!(gate.store.count("claim"), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let second = gate.send(post("k", "{}"));
    let taken = gate.next_call().await;
    assert_eq!(taken.headers.get("oncegate-attempt").unwrap(), "2");
    gate.store.hold(None);
    call.is_dropped().await;
    taken.answer(created("paid"));
    assert_eq!(Whole::of(second.await.unwrap()).await.status, 201);
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
}

#[tokio::test(start_paused = true)]
async fn a_transactional_backend_is_not_extended_against() {
    let mut gate = Gate::new(oncegate_tower::Route::gateway("payments", oncegate_core::Backend::Transactional));
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(gate.store.count("extend"), 0);
    call.answer(created("paid"));
    assert_eq!(Whole::of(first.await.unwrap()).await.status, 201);
    assert_eq!(gate.events.count("Uncooperative"), 1, "it did not complete the record itself");
}
