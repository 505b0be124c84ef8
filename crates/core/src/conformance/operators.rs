//! What operators do: every state by every verb, and the audit.

use super::{
    Case,
    trial::{
        LEASE, MOMENT, RETENTION, STATES, Trial, cut, idempotent, note, of_a_stranger, other_body, repeat, request,
        response, without_owner,
    },
};
use crate::{ClaimRequest, DoubtReason, Fence, OperatorVerb, Seen, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    operators_verbs_by_state_and_force,
    resolve_needs_the_fence_and_the_state,
    resolve_after_a_takeover_is_stale,
    a_completed_record_is_not_resolved_once_more,
    a_resolved_record_is_replayed_and_lives_for_the_retention,
    whoever_still_executes_is_stale_after_a_resolve,
    what_operators_did_is_audited_and_what_was_stale_is_not,
    the_audit_answers_the_latest_entries_first,
    a_cancelled_resolve_is_audited_if_and_only_if_it_is_applied,
    the_audit_survives_closing,
];

// === every state by every verb ===

/// What an operator can meet, in the order in which it is prepared: time only goes on.
const STAGES: [Stage; 7] = [
    Stage::Expired(StateName::InFlight),
    Stage::Expired(StateName::Completed),
    Stage::Expired(StateName::Unknown),
    Stage::Abandoned,
    Stage::Live,
    Stage::Completed,
    Stage::Unknown,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Expired(StateName),
    Abandoned,
    Live,
    Completed,
    Unknown,
}

impl Stage {
    fn state(self) -> StateName {
        match self {
            Self::Expired(state) => state,
            Self::Abandoned | Self::Live => StateName::InFlight,
            Self::Completed => StateName::Completed,
            Self::Unknown => StateName::Unknown,
        }
    }
}

/// The table itself.
fn is_allowed(verb: OperatorVerb, stage: Stage, force: bool) -> bool {
    match (verb, stage) {
        (_, Stage::Expired(_)) => false,
        (OperatorVerb::Release, Stage::Live) => force,
        (OperatorVerb::Resolve, Stage::Live) => true,
        (OperatorVerb::Resolve | OperatorVerb::Release, Stage::Abandoned | Stage::Unknown) => true,
        (OperatorVerb::Resolve | OperatorVerb::Release, Stage::Completed) => false,
        (OperatorVerb::Purge, Stage::Completed) => true,
        (OperatorVerb::Purge, Stage::Live | Stage::Abandoned | Stage::Unknown) => false,
    }
}

/// One cell of the table and its record.
struct Cell {
    verb: OperatorVerb,
    stage: Stage,
    force: bool,
    request: ClaimRequest,
    seen: Seen,
}

async fn operators_verbs_by_state_and_force(trial: Trial) {
    let mut cells = Vec::new();
    for stage in STAGES {
        match stage {
            Stage::Abandoned => trial.advance(RETENTION + MOMENT).await,
            Stage::Live => trial.advance(LEASE + MOMENT).await,
            Stage::Expired(_) | Stage::Completed | Stage::Unknown => {}
        }
        for (verb, force) in OperatorVerb::ALL.into_iter().flat_map(|verb| [(verb, false), (verb, true)]) {
            cells.push(prepared(&trial, verb, stage, force).await);
        }
    }
    for cell in &cells {
        try_cell(&trial, cell).await;
    }
}

async fn prepared(trial: &Trial, verb: OperatorVerb, stage: Stage, force: bool) -> Cell {
    let request = request(&format!("{}-{stage:?}-{force}", verb.as_str()));
    let lease = trial.acquire_and_bring_to(stage.state(), &request).await;
    // Whoever uses a verb in a state that it is not for takes the record for one that it is for.
    let believed = STATES.into_iter().find(|state| verb.leaves(*state)).expect("every verb leaves a state");
    let state = if verb.leaves(stage.state()) { stage.state() } else { believed };
    Cell { verb, stage, force, request, seen: Seen { record: lease.record, fence: lease.fence, state } }
}

async fn try_cell(trial: &Trial, cell: &Cell) {
    let Cell { verb, stage, force, request, seen } = cell;
    let before = trial.get(seen.record).await;
    let entries = trial.audit(0).await.len();
    let written = match verb {
        OperatorVerb::Resolve => trial.resolve(*seen, &response(202), *force).await,
        OperatorVerb::Release | OperatorVerb::Purge => trial.purge(seen.record, seen.fence, seen.state, *force).await,
    };
    let what = format!("{} of {stage:?}, force {force}", verb.as_str());
    if !is_allowed(*verb, *stage, *force) {
        assert_eq!(written, Written::Stale, "{what}");
        assert_eq!(trial.get(seen.record).await, before, "{what} must change nothing");
        assert_eq!(trial.audit(0).await.len(), entries, "{what} must not be audited");
        return;
    }
    assert_eq!(written, Written::Done, "{what}");
    match verb {
        OperatorVerb::Resolve => {
            assert_eq!(*trial.replay(&repeat(request)).await.response, response(202), "{what}");
        }
        OperatorVerb::Release | OperatorVerb::Purge => assert!(trial.is_absent(request).await, "{what}"),
    }
    let audit = trial.audit(0).await;
    assert_eq!((audit.len(), audit[0].verb), (entries + 1, *verb), "{what}");
}

// === resolve ===

async fn resolve_needs_the_fence_and_the_state(trial: Trial) {
    for state in STATES {
        let request = request(state.as_str());
        let lease = trial.acquire_and_bring_to(state, &request).await;
        let seen = Seen { record: lease.record, fence: lease.fence, state };
        let before = trial.get(seen.record).await;
        for fence in [lease.fence.get() - 1, lease.fence.get() + 1] {
            let other = Seen { fence: Fence::new(fence), ..seen };
            assert_eq!(trial.resolve(other, &response(202), true).await, Written::Stale, "{other:?}");
        }
        for state in STATES.into_iter().filter(|other| *other != state) {
            let other = Seen { state, ..seen };
            assert_eq!(trial.resolve(other, &response(202), true).await, Written::Stale, "{other:?}");
        }
        assert_eq!(trial.get(seen.record).await, before, "a stale resolve changes nothing");
    }
    let absent = Seen { record: request("absent").id.digest(), fence: Fence::new(1), state: StateName::Unknown };
    assert_eq!(trial.resolve(absent, &response(202), true).await, Written::Stale);
}

async fn resolve_after_a_takeover_is_stale(trial: Trial) {
    let request = idempotent("k");
    trial.acquire(&request).await;
    let seen = Seen::of(&trial.record(&request).await);
    trial.advance(LEASE + MOMENT).await;
    let taken = trial.acquire(&repeat(&request)).await;
    assert_eq!(trial.resolve(seen, &response(202), true).await, Written::Stale);
    assert_eq!(trial.complete(&taken, &response(201)).await, Written::Done);
}

async fn a_completed_record_is_not_resolved_once_more(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request).await;
    let before = trial.get(lease.record).await;
    let seen = Seen::of(&trial.record(&request).await);
    for force in [false, true] {
        assert_eq!(trial.resolve(seen, &response(202), force).await, Written::Stale, "force {force}");
    }
    assert_eq!(trial.get(lease.record).await, before, "the response that was stored first stays");
    assert_eq!(*trial.replay(&repeat(&request)).await.response, response(201));
    assert_eq!(trial.audit(0).await, []);
}

async fn a_resolved_record_is_replayed_and_lives_for_the_retention(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire_and_bring_to(StateName::Unknown, &request).await;
    trial.advance(RETENTION - MOMENT).await;
    let seen = Seen::of(&trial.record(&request).await);
    assert_eq!(trial.resolve(seen, &response(202), false).await, Written::Done);
    let record = trial.record(&request).await;
    let State::Completed { completed_at, status: 202 } = record.state else { panic!("not resolved: {record:?}") };
    assert!(trial.same_time(completed_at, trial.now().await));
    assert_eq!((record.expires_at, record.fence), (completed_at.after(RETENTION), lease.fence));
    assert_eq!(trial.outcome(&other_body(&request)).await, "mismatch", "it is still the first request's key");
    trial.advance(RETENTION - MOMENT).await;
    assert_eq!(*trial.replay(&repeat(&request)).await.response, response(202));
    trial.advance(MOMENT * 2).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "acquired", "its retention is over");
}

async fn whoever_still_executes_is_stale_after_a_resolve(trial: Trial) {
    for state in [StateName::InFlight, StateName::Unknown] {
        let request = request(state.as_str());
        let lease = trial.acquire_and_bring_to(state, &request).await;
        let seen = Seen { record: lease.record, fence: lease.fence, state };
        assert_eq!(trial.resolve(seen, &response(202), false).await, Written::Done);
        let resolved = trial.get(lease.record).await;
        for lease in [lease.clone(), without_owner(&lease), of_a_stranger(&lease)] {
            // Not even its own: what is stored is the operator's response, not this one.
            assert_eq!(trial.complete(&lease, &response(201)).await, Written::Stale, "{lease:?}");
            assert_eq!(trial.extend(&lease, LEASE).await, Written::Stale, "{lease:?}");
            assert_eq!(trial.doubt(&lease, &DoubtReason::RESET).await, Written::Stale, "{lease:?}");
            assert_eq!(trial.release(&lease).await, Written::Stale, "{lease:?}");
        }
        assert_eq!(trial.withdraw(&request).await, Written::Stale);
        assert_eq!(trial.get(lease.record).await, resolved);
        assert_eq!(*trial.replay(&request).await.response, response(202), "its own claim is answered too");
    }
}

// === the audit ===

async fn what_operators_did_is_audited_and_what_was_stale_is_not(trial: Trial) {
    assert_eq!(trial.audit(0).await, []);
    for (state, verb) in [
        (StateName::Unknown, OperatorVerb::Resolve),
        (StateName::InFlight, OperatorVerb::Release),
        (StateName::Completed, OperatorVerb::Purge),
    ] {
        let request = request(verb.as_str());
        let lease = trial.acquire_and_bring_to(state, &request).await;
        let seen = Seen { record: lease.record, fence: lease.fence, state };
        let (written, status) = match verb {
            OperatorVerb::Resolve => (trial.resolve(seen, &response(202), true).await, Some(202)),
            OperatorVerb::Release | OperatorVerb::Purge => {
                (trial.purge(seen.record, seen.fence, seen.state, true).await, None)
            }
        };
        assert_eq!(written, Written::Done);
        // Once more: it is not as it was seen any more.
        assert_eq!(trial.purge(seen.record, seen.fence, seen.state, true).await, Written::Stale);
        let entry = trial.audit(1).await.remove(0);
        assert!(trial.same_time(entry.at, trial.now().await));
        assert_eq!((entry.verb, entry.seen, entry.status), (verb, seen, status));
        assert_eq!((entry.operation, entry.note), (request.operation, note(true)));
    }
    assert_eq!(trial.audit(0).await.len(), 3);
}

async fn the_audit_answers_the_latest_entries_first(trial: Trial) {
    let mut released = Vec::new();
    for key in ["a", "b", "c"] {
        let lease = trial.acquire(&request(key)).await;
        assert_eq!(trial.purge(lease.record, lease.fence, StateName::InFlight, true).await, Written::Done);
        released.push(lease.record);
    }
    released.reverse();
    for (rows, expected) in [(0, 3), (2, 2), (1, 1), (3, 3), (1000, 3)] {
        let audited: Vec<_> = trial.audit(rows).await.iter().map(|entry| entry.seen.record).collect();
        assert_eq!(audited, released[..expected], "{rows} rows");
    }
    assert_eq!(trial.another().await.audit(0).await, trial.audit(0).await, "every handle reads the same");
}

async fn a_cancelled_resolve_is_audited_if_and_only_if_it_is_applied(trial: Trial) {
    for polls in 0..4 {
        let request = request(&format!("k{polls}"));
        trial.acquire(&request).await;
        let seen = Seen::of(&trial.record(&request).await);
        cut(polls, trial.store().resolve(seen, &response(202), &note(false))).await;
        // What was queued before is done before, so this is the second or the first and only one.
        let again = trial.resolve(seen, &response(202), false).await;
        assert_eq!(*trial.replay(&repeat(&request)).await.response, response(202));
        let audit = trial.audit(0).await;
        let entries = audit.iter().filter(|entry| entry.seen == seen).count();
        assert_eq!(entries, 1, "dropped after {polls} polls, then {again:?}");
    }
}

async fn the_audit_survives_closing(trial: Trial) {
    let request = request("k");
    trial.acquire(&request).await;
    let seen = Seen::of(&trial.record(&request).await);
    assert_eq!(trial.purge(seen.record, seen.fence, seen.state, true).await, Written::Done);
    let before = trial.audit(0).await;
    assert_eq!(before.len(), 1);
    let Some(trial) = trial.reopened().await else { return };
    assert_eq!(trial.audit(0).await, before);
}
