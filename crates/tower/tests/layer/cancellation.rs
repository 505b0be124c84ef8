//! Clients that leave.

use std::{future::poll_fn, task::Poll, time::Duration};

use oncegate_core::{State, StateName};
use oncegate_tower::Outcome;

use crate::harness::{Gate, Whole, created, post, route};

#[tokio::test]
async fn a_client_that_leaves_changes_nothing() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    call.answer(created("paid"));
    gate.handle.drained().await;
    assert!(gate.repeat(post("k", "{}")).await.is_replay());
    assert_eq!((gate.executions(), gate.events.count("ClientLeft")), (1, 1));
}

/// The client leaves after each number of polls in turn, with each verb of the store held up for a
/// while, so that every `await` of the flow is met. Whatever happens: the request executes at most
/// once, and its repeat gets its answer.
#[tokio::test]
async fn a_client_may_leave_at_every_await() {
    let mut left_before_the_end = 0;
    for held in [None, Some("claim"), Some("complete")] {
        // A verb that is held up is never passed: then a few polls meet the last state again.
        for polls in 0..40 {
            let mut gate = Gate::new(route());
            gate.store.hold(held);
            let mut request = Box::pin(gate.call(post("k", "{}")));
            let mut is_answered = false;
            for _ in 0..polls {
                is_answered = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
                if is_answered {
                    break;
                }
                // What the layer has detached gets on in between, and so does the handler.
                tokio::task::yield_now().await;
                gate.answer_calls(|| created("first"));
            }
            drop(request);
            gate.store.hold(None);
            while gate.handle.executing() > 0 {
                gate.answer_calls(|| created("first"));
                tokio::task::yield_now().await;
            }
            let executed = gate.executions();
            assert!(executed <= 1, "executed {executed} times when the client left after {polls} polls");
            let repeat = gate.exchange(post("k", "{}"), created("first")).await;
            assert_eq!((repeat.status, &repeat.body[..], gate.executions()), (201, &b"first"[..], 1), "{polls} polls");
            assert_eq!(repeat.outcome == Outcome::Replayed, executed == 1);
            if is_answered {
                break;
            }
            left_before_the_end += 1;
        }
    }
    assert!(left_before_the_end >= 6, "only {left_before_the_end} points were met");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_caller_gave_up_is_withdrawn() {
    let mut gate = Gate::new(route());
    gate.store.hold(Some("claim"));
    let first = gate.send(post("k", "{}"));
    // The store's timeout of 2 s passes; the claim is dropped with its answer.
    Whole::of(first.await.unwrap()).await.problem(503, "store-unavailable");
    gate.store.hold(None);
    gate.handle.drained().await;
    assert!(gate.store.is_empty().await);
    assert_eq!((gate.executions(), gate.store.count("withdraw")), (0, 1));
    assert_eq!(gate.exchange(post("k", "{}"), created("paid")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_nobody_waits_for_keeps_its_lease() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let call = gate.next_call().await;
    first.abort();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let record = gate.store.record().await;
    assert_eq!(record.state.name(), StateName::InFlight);
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");
    call.answer(created("paid"));
    gate.handle.drained().await;
    assert!(matches!(gate.store.record().await.state, State::Completed { .. }));
}
