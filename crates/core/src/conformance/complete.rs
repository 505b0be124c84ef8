//! complete: stores the response once, under the newest fence, however late.

use super::{
    Case,
    trial::{
        LEASE, MOMENT, RETENTION, Trial, at_once, idempotent, of_a_stranger, other_body, repeat, request, response,
        without_owner,
    },
};
use crate::{ClaimRequest, Lease, Record, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    completion_is_stored_and_keeps_everything_but_the_state,
    completion_without_an_owner_needs_the_fence_only,
    completion_of_a_claim_without_an_owner_is_accepted,
    late_completion_is_accepted,
    late_completion_of_a_record_that_may_be_taken_over_is_accepted,
    completion_of_an_unknown_record_is_accepted,
    completion_of_a_record_that_a_repeat_made_unknown_is_accepted,
    completion_after_a_takeover_is_stale,
    completion_needs_the_fence,
    a_foreign_owner_cannot_complete,
    repeated_completion_by_the_same_owner_is_done_and_changes_nothing,
    repeated_completion_without_an_owner_is_stale,
    repeated_completion_by_a_foreign_owner_is_stale,
    repeated_completion_of_a_claim_without_an_owner_is_stale,
    one_of_many_concurrent_completions_without_an_owner_is_done,
    completion_of_an_absent_record_is_stale,
    completion_of_an_expired_record_is_stale,
    the_response_of_an_earlier_life_is_never_replayed,
];

async fn completion_is_stored_and_keeps_everything_but_the_state(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    let before = trial.record(&request).await;
    trial.advance(MOMENT).await;
    let now = trial.now().await;
    assert_eq!(trial.complete(&lease, &response(404)).await, Written::Done);
    let (after, stored) = trial.get(lease.record).await.expect("completed just now");
    assert_eq!(stored, Some(response(404)));
    let State::Completed { completed_at, status: 404 } = after.state else { panic!("{after:?}") };
    assert!(trial.same_time(completed_at, now), "{after:?}");
    assert!(trial.same_time(after.expires_at, now.after(RETENTION)), "{after:?}");
    assert_eq!(after, Record { state: after.state.clone(), expires_at: after.expires_at, ..before });
}

async fn completion_without_an_owner_needs_the_fence_only(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.complete(&without_owner(&lease), &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed");
}

async fn completion_of_a_claim_without_an_owner_is_accepted(trial: Trial) {
    let request = ClaimRequest { owner: None, ..request("k") };
    let lease = trial.acquire(&request).await;
    assert_eq!(lease.owner, None);
    assert_unchanged(&trial, &[of_a_stranger(&lease)]).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&request).await, "completed");
}

async fn late_completion_is_accepted(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    trial.advance(LEASE * 100).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed");
}

async fn late_completion_of_a_record_that_may_be_taken_over_is_accepted(trial: Trial) {
    let request = idempotent("k");
    let lease = trial.acquire(&request).await;
    trial.advance(LEASE * 100).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed", "nobody took over, and nobody can now");
}

async fn completion_of_an_unknown_record_is_accepted(trial: Trial) {
    for (key, owner) in [("a", true), ("b", false)] {
        let request = request(key);
        let lease = trial.acquire_and_bring_to(StateName::Unknown, &request).await;
        trial.advance(LEASE * 3).await;
        let lease = if owner { lease } else { without_owner(&lease) };
        assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
        assert_eq!(trial.outcome(&repeat(&request)).await, "completed");
    }
}

async fn completion_of_a_record_that_a_repeat_made_unknown_is_accepted(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "unknown");
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed");
}

async fn completion_after_a_takeover_is_stale(trial: Trial) {
    let request = idempotent("k");
    let zombie = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    let taken = trial.acquire(&repeat(&request)).await;
    let by_the_zombie = [zombie.clone(), without_owner(&zombie)];
    assert_unchanged(&trial, &by_the_zombie).await;
    assert_eq!(trial.complete(&taken, &response(201)).await, Written::Done);
    assert_unchanged(&trial, &by_the_zombie).await;
    assert_eq!(trial.replay(&repeat(&request)).await.response.status, 201);
}

async fn completion_needs_the_fence(trial: Trial) {
    let lease = trial.acquire(&request("k")).await;
    let other = trial.acquire(&request("other")).await;
    let with_fence_of_another = Lease { fence: other.fence, ..lease.clone() };
    assert_unchanged(&trial, &[with_fence_of_another.clone(), without_owner(&with_fence_of_another)]).await;
    let of_another_record = Lease { record: other.record, ..lease.clone() };
    assert_unchanged(&trial, &[of_another_record]).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn a_foreign_owner_cannot_complete(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_unchanged(&trial, &[of_a_stranger(&lease)]).await;
    assert_eq!(trial.doubt(&lease, &crate::DoubtReason::RESET).await, Written::Done);
    assert_unchanged(&trial, &[of_a_stranger(&lease)]).await;
}

async fn repeated_completion_by_the_same_owner_is_done_and_changes_nothing(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request).await;
    let first = trial.get(lease.record).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.complete(&lease, &response(500)).await, Written::Done, "its own earlier success");
    assert_eq!(trial.get(lease.record).await, first, "the first response and its times stay");
    assert_eq!(*trial.replay(&repeat(&request)).await.response, response(201), "and so it is replayed");
}

async fn repeated_completion_without_an_owner_is_stale(trial: Trial) {
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request("k")).await;
    assert_unchanged(&trial, &[without_owner(&lease)]).await;
}

async fn repeated_completion_by_a_foreign_owner_is_stale(trial: Trial) {
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request("k")).await;
    assert_unchanged(&trial, &[of_a_stranger(&lease)]).await;
}

async fn repeated_completion_of_a_claim_without_an_owner_is_stale(trial: Trial) {
    let request = ClaimRequest { owner: None, ..request("k") };
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request).await;
    assert_unchanged(&trial, &[lease.clone(), of_a_stranger(&lease)]).await;
}

async fn one_of_many_concurrent_completions_without_an_owner_is_done(trial: Trial) {
    for round in 0..8 {
        let request = request(&format!("k{round}"));
        let lease = without_owner(&trial.acquire(&request).await);
        let handles = [trial.clone(), trial.another().await];
        let complete = |status: u16| {
            let (trial, lease) = (handles[usize::from(status % 2)].clone(), lease.clone());
            async move { trial.complete(&lease, &response(status)).await }
        };
        let written = at_once((200..216).map(complete)).await;
        let done: Vec<_> = (200..216).zip(written).filter(|(_, written)| *written == Written::Done).collect();
        assert_eq!(done.len(), 1, "one fence delivered twice must not commit two effects: {done:?}");
        assert_eq!(*trial.replay(&repeat(&request)).await.response, response(done[0].0));
    }
}

async fn completion_of_an_absent_record_is_stale(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.release(&lease).await, Written::Done);
    assert_unchanged(&trial, &[lease]).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "acquired", "nothing came back to life");
}

async fn completion_of_an_expired_record_is_stale(trial: Trial) {
    for (key, state) in ["a", "b", "c"].into_iter().zip(super::trial::STATES) {
        let request = request(key);
        let lease = trial.acquire_and_bring_to(state, &request).await;
        trial.advance(RETENTION + MOMENT).await;
        assert_unchanged(&trial, &[lease.clone(), without_owner(&lease)]).await;
        assert!(trial.is_absent(&request).await);
    }
}

async fn the_response_of_an_earlier_life_is_never_replayed(trial: Trial) {
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Completed, &first).await;
    trial.advance(RETENTION + MOMENT).await;
    let second = other_body(&first);
    let lease = trial.acquire(&second).await;
    let (record, stored) = trial.get(lease.record).await.expect("acquired just now");
    assert_eq!((record.state.name(), stored), (StateName::InFlight, None));
    assert_eq!(trial.outcome(&repeat(&first)).await, "mismatch", "the first life is forgotten");
    assert_eq!(trial.doubt(&lease, &crate::DoubtReason::RESET).await, Written::Done);
    assert_eq!(trial.get(lease.record).await.and_then(|(_, stored)| stored), None);
    assert_eq!(trial.complete(&lease, &response(202)).await, Written::Done);
    assert_eq!(*trial.replay(&repeat(&second)).await.response, response(202));
}

async fn assert_unchanged(trial: &Trial, leases: &[Lease]) {
    for lease in leases {
        let before = trial.get(lease.record).await;
        assert_eq!(trial.complete(lease, &response(500)).await, Written::Stale, "under {lease:?}");
        assert_eq!(trial.get(lease.record).await, before, "a stale completion changes nothing");
    }
}
