//! A backend that completes the record in its own transaction: nothing is written against it, and what it stored is what
//! everybody hears.

use std::time::Duration;

use bytes::Bytes;
use oncegate_core::{Backend, Note, OnAbandoned, Seen, StateName, Store, StoredResponse, Written};
use oncegate_tower::{Route, UpstreamError, UpstreamErrorKind};

use crate::harness::{Fault, Gate, Whole, created, part, post, status, streamed};

fn transactional() -> Route {
    Route::gateway("payments", Backend::Transactional)
}

/// The backend's commit. To a gate it looks like an operator's hand: completed under its fence, and not by it.
async fn commit(gate: &Gate, status: u16) {
    let seen = Seen::of(&gate.store.record().await);
    let response = StoredResponse { status, headers: Vec::new(), body: Some(Bytes::from_static(b"committed")) };
    let note = Note::new("backend", "committed").unwrap();
    assert_eq!(gate.store.records.resolve(seen, &response, &note).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn what_the_backend_completed_is_its_answer_and_every_repeats() {
    let mut gate = Gate::new(transactional());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    commit(&gate, 201).await;
    let mut response = created("committed");
    response.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
    call.answer(response);
    let whole = Whole::of(first.await.unwrap()).await;
    assert_eq!((whole.status, whole.header("set-cookie"), whole.is_replay()), (201, Some("a=b"), false));
    let repeat = gate.repeat(post("k", "{}")).await;
    assert!(repeat.is_replay() && repeat.body == "committed", "{repeat:?}");
    assert_eq!((gate.events.count("Uncooperative"), gate.events.count("Stale")), (0, 0));
}

#[tokio::test]
async fn an_answer_that_contradicts_the_commit_gives_way_to_it() {
    for code in [200, 422, 500, 503, 409, 425, 502, 504] {
        let mut gate = Gate::new(transactional());
        let first = gate.send(post("k", "{}"));
        let call = gate.next_call().await;
        commit(&gate, 201).await;
        call.answer(status(code, "something else"));
        let whole = Whole::of(first.await.unwrap()).await;
        assert!(whole.is_replay() && whole.status == 201 && whole.body == "committed", "{code}: {whole:?}");
        assert_eq!(gate.store.record().await.state.name(), StateName::Completed, "{code}");
        assert_eq!((gate.events.count("Uncooperative"), gate.events.count("Stale")), (0, 0), "{code}");
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_after_the_commit_is_read_from_the_record() {
    for kind in [UpstreamErrorKind::Failed, UpstreamErrorKind::Timeout] {
        for rule in [OnAbandoned::Takeover, OnAbandoned::Unknown] {
            let mut route = transactional();
            std::sync::Arc::make_mut(&mut route.policy).on_abandoned = rule;
            let mut gate = Gate::new(route);
            let first = gate.send(post("k", "{}"));
            let call = gate.next_call().await;
            commit(&gate, 201).await;
            call.fail(UpstreamError::new(kind, "gone"));
            let whole = Whole::of(first.await.unwrap()).await;
            assert!(whole.is_replay() && whole.body == "committed", "{kind:?} {rule:?}: {whole:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_before_any_commit_is_passed_on() {
    for (kind, code, name) in
        [(UpstreamErrorKind::Failed, 502, "upstream-failed"), (UpstreamErrorKind::Timeout, 504, "upstream-timeout")]
    {
        let mut gate = Gate::new(transactional());
        let first = gate.send(post("k", "{}"));
        gate.next_call().await.fail(UpstreamError::new(kind, "gone"));
        let problem = Whole::of(first.await.unwrap()).await.problem(code, name);
        assert_eq!(problem["retry"], "same-key");
        assert_eq!(gate.store.record().await.state.name(), StateName::InFlight);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_does_not_keep_the_answer_back() {
    let mut gate = Gate::new(transactional());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    gate.store.fault("get", Some(Fault::Before));
    call.answer(status(409, "mine"));
    let whole = Whole::of(first.await.unwrap()).await;
    assert_eq!((whole.status, &whole.body[..]), (409, &b"mine"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_fenced_backend_is_heard_by_nobody() {
    for code in [201, 409, 500] {
        let mut zombie = Gate::new(transactional());
        let first = zombie.send(post("k", "{}"));
        let call = zombie.next_call().await;
        tokio::time::sleep(Duration::from_secs(31)).await;
        let mut taker = Gate::before(zombie.store.clone(), transactional());
        let second = taker.send(post("k", "{}"));
        let taken = taker.next_call().await;
        assert_eq!(taken.headers["oncegate-attempt"], "2");
        commit(&taker, 201).await;
        taken.answer(created("committed"));
        assert_eq!(Whole::of(second.await.unwrap()).await.status, 201);
        call.answer(status(code, "the zombie's"));
        let whole = Whole::of(first.await.unwrap()).await;
        assert!(whole.is_replay() && whole.body == "committed", "{code}: {whole:?}");
    }
}

#[tokio::test]
async fn a_long_answer_that_contradicts_the_commit_has_no_end() {
    let mut gate = Gate::new(transactional());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    let (parts, response) = streamed();
    call.answer(response);
    parts.send(part("a")).unwrap();
    let answer = first.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200, "its head is gone already");
    commit(&gate, 201).await;
    drop(parts);
    use http_body_util::BodyExt as _;
    assert!(answer.into_body().collect().await.is_err(), "a whole answer would be believed");
    assert!(gate.repeat(post("k", "{}")).await.body == "committed");
}
