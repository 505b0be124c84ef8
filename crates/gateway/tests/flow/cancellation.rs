//! A client may leave at every `await`: of the flow, of the execution's answer, and of waiting for another's.
//!
//! Each request is dropped at its first rest, at its second, and so on until it ends by itself; and after the first step
//! of everything else, after the second, and so on, which is where the task that executes may be. Stores, bodies and the
//! service rest at each of their steps, so none of the flow's is passed at once.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use oncegate_core::{
    Backend, StateName,
    fingerprint::{Mode, Rules, RulesOptions},
};
use oncegate_tower::{Route, Routes};

use crate::{
    client::{Leaves, Leaving},
    guarded::{Answer, Ending, Guarded, Kind, Records},
};

const KINDS: [Kind; 2] = [Kind::Memory, Kind::Sqlite];

fn route() -> Route {
    Route::gateway("payments", Backend::Plain)
}

fn patient() -> Route {
    let mut route = route();
    route.wait = Duration::from_secs(5);
    route
}

fn small() -> Vec<Bytes> {
    vec!["{\"a\"".into(), ":1}".into()]
}

/// Runs `each` for every point at which a client can leave, until it says that the client stayed to the end. Returns
/// at how many points clients came to rest and left.
async fn at_every_point(kind: Kind, mut each: impl AsyncFnMut(Leaves) -> bool) -> usize {
    let mut left = 0;
    for leaves in [Leaves::AtRest, Leaves::Woken, Leaves::After] {
        let mut point = 0;
        while !each(leaves(point)).await {
            left += usize::from(!matches!(leaves(point), Leaves::After(_)));
            // A thread that writes to a disk takes thousands of steps of everything else.
            point += match (kind, leaves(point)) {
                (Kind::Sqlite, Leaves::After(_)) => point + 1,
                (Kind::Memory | Kind::Sqlite, _) => 1,
            };
            assert!(point < 10_000_000, "the request never ends");
        }
    }
    left
}

/// What a repeat gets after an execution that ended so, and what the record is then.
fn expected(ending: Ending) -> (Option<StateName>, u16, Option<&'static str>) {
    match ending {
        Ending::Whole => (Some(StateName::Completed), 201, None),
        Ending::Streamed => (Some(StateName::Completed), 200, None),
        Ending::Refused => (None, 503, None),
        Ending::Cut | Ending::Lost | Ending::Panic => (Some(StateName::Unknown), 409, Some("unknown")),
    }
}

async fn leave_alone(kind: Kind, ending: Ending, body: Vec<Bytes>) -> usize {
    let records = Records::new(kind);
    at_every_point(kind, async |leaves| {
        let gate = Guarded::new(&records, route(), ending);
        let answer = Leaving::new(gate.post(&body), leaves).await;
        gate.handle.drained().await;
        let executed = gate.executions();
        assert!(executed <= 1, "{kind:?} {ending:?} {leaves:?}: executed {executed} times");
        let (state, status, problem) = expected(ending);
        let found = gate.record().await.map(|record| record.state.name());
        assert_eq!(found, state.filter(|_| executed == 1), "{kind:?} {ending:?} {leaves:?}");

        let repeat = gate.post(&body).await;
        let is_executed_again = executed == 0 || ending == Ending::Refused;
        assert_eq!(gate.executions(), executed + usize::from(is_executed_again), "{kind:?} {ending:?} {leaves:?}");
        if !is_executed_again {
            assert_eq!((repeat.status, repeat.problem.as_deref()), (status, problem), "{kind:?} {ending:?} {leaves:?}");
            assert_eq!(repeat.is_replay, problem.is_none());
        }
        answer.is_some()
    })
    .await
}

#[tokio::test]
async fn an_execution_is_recorded_wherever_its_client_left() {
    for kind in KINDS {
        for ending in [Ending::Whole, Ending::Refused, Ending::Lost, Ending::Panic] {
            let left = leave_alone(kind, ending, small()).await;
            assert!(left >= 8, "{kind:?} {ending:?}: only {left} points were met");
        }
    }
}

#[tokio::test]
async fn a_stream_is_recorded_wherever_its_reader_left() {
    for kind in KINDS {
        for ending in [Ending::Streamed, Ending::Cut] {
            let left = leave_alone(kind, ending, small()).await;
            assert!(left >= 10, "{kind:?} {ending:?}: only {left} points were met");
        }
    }
}

#[tokio::test]
async fn a_spooled_body_is_forwarded_whole_or_not_at_all() {
    let long = vec![Bytes::from(vec![b'x'; 200_000]); 2];
    for kind in KINDS {
        let left = leave_alone(kind, Ending::Whole, long.clone()).await;
        assert!(left >= 8, "{kind:?}: only {left} points were met");
    }
}

#[tokio::test]
async fn a_repeat_that_waits_may_leave_and_disturbs_nobody() {
    for kind in KINDS {
        for ending in [Ending::Whole, Ending::Streamed] {
            let records = Records::new(kind);
            at_every_point(kind, async |leaves| {
                let gate = Guarded::new(&records, patient(), ending);
                let first = tokio::spawn(gate.post(&small()));
                let answer = Leaving::new(gate.post(&small()), leaves).await;
                let first = first.await.unwrap();
                gate.handle.drained().await;
                let status = expected(ending).1;
                assert_eq!((first.status, gate.executions()), (status, 1), "{kind:?} {ending:?} {leaves:?}");
                assert!(gate.post(&small()).await.is_replay, "{kind:?} {ending:?} {leaves:?}");
                answer.is_some()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn whoever_waits_gets_an_answer_wherever_the_first_client_left() {
    for kind in KINDS {
        for ending in [Ending::Whole, Ending::Streamed, Ending::Refused] {
            let records = Records::new(kind);
            at_every_point(kind, async |leaves| {
                let gate = Guarded::new(&records, patient(), ending);
                let leaving = Leaving::new(gate.post(&small()), leaves);
                let (answer, waiting) = tokio::join!(leaving, gate.post(&small()));
                gate.handle.drained().await;
                let (_, status, _) = expected(ending);
                assert_eq!(waiting.status, status, "{kind:?} {ending:?} {leaves:?}");
                // What was released is executed for whoever waits.
                let executed = if ending == Ending::Refused { 1..=2 } else { 1..=1 };
                assert!(executed.contains(&gate.executions()), "{kind:?} {ending:?} {leaves:?}");
                answer.is_some()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_repeat_that_is_compared_under_earlier_rules_may_leave() {
    let by_bytes = || {
        let mut route = route();
        let options = RulesOptions { mode: Mode::Bytes, ..RulesOptions::default() };
        route.rules = Arc::new(Rules::new(&options).unwrap());
        Routes::all(route)
    };
    for kind in KINDS {
        let records = Records::new(kind);
        let left = at_every_point(kind, async |leaves| {
            let gate = Guarded::new(&records, route(), Ending::Whole);
            gate.post(&small()).await;
            gate.handle.set_routes(by_bytes());
            let answer = Leaving::new(gate.post(&small()), leaves).await;
            gate.handle.drained().await;
            let replay = Answer { status: 201, is_replay: true, problem: None, body: Some("paid".into()) };
            assert_eq!(gate.post(&small()).await, replay, "{kind:?} {leaves:?}");
            assert_eq!(gate.executions(), 1);
            answer.is_some_and(|answer| answer == replay)
        })
        .await;
        assert!(left >= 6, "{kind:?}: only {left} points were met");
    }
}
