//! doubt: the outcome was lost while we live.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, Trial, idempotent, of_a_stranger, repeat, request, response, without_owner},
};
use crate::{Claim, DoubtReason, Doubted, Lease, Record, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    doubt_makes_the_record_unknown_at_once,
    doubt_keeps_everything_but_the_state,
    doubt_after_the_lease_ended_is_accepted_if_nobody_took_over,
    doubt_after_a_takeover_is_stale,
    doubt_leaves_only_in_flight,
    doubt_needs_the_fence_and_the_owner_if_there_is_one,
    doubt_of_an_absent_or_expired_record_is_stale,
    reasons_are_kept_in_the_callers_words,
];

async fn doubt_makes_the_record_unknown_at_once(trial: Trial) {
    for (key, reason) in [("a", DoubtReason::TIMEOUT), ("b", DoubtReason::status(502))] {
        let request = idempotent(key);
        let lease = trial.acquire(&request).await;
        trial.advance(MOMENT).await;
        let now = trial.now().await;
        assert_eq!(trial.doubt(&lease, &reason).await, Written::Done);
        let Claim::Unknown(doubted) = trial.claim(&repeat(&request)).await else { panic!("the lease still lives") };
        assert_eq!(doubted.reason, reason);
        assert!(trial.same_time(doubted.since, now), "{doubted:?}");
    }
}

async fn doubt_keeps_everything_but_the_state(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    let before = trial.record(&request).await;
    trial.advance(MOMENT).await;
    let now = trial.now().await;
    assert_eq!(trial.doubt(&lease, &DoubtReason::BODY_CUT).await, Written::Done);
    let after = trial.record(&request).await;
    let State::Unknown { since, .. } = after.state else { panic!("{after:?}") };
    let state = State::Unknown { since, reason: DoubtReason::BODY_CUT };
    assert!(trial.same_time(since, now) && trial.same_time(after.expires_at, now.after(RETENTION)), "{after:?}");
    assert_eq!(after, Record { state, expires_at: after.expires_at, ..before });
}

async fn doubt_after_the_lease_ended_is_accepted_if_nobody_took_over(trial: Trial) {
    let request = idempotent("k");
    let lease = trial.acquire(&request).await;
    trial.advance(LEASE * 2).await;
    assert_eq!(trial.doubt(&lease, &DoubtReason::RESET).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "unknown");
}

async fn doubt_after_a_takeover_is_stale(trial: Trial) {
    let request = idempotent("k");
    let zombie = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    let taken = trial.acquire(&repeat(&request)).await;
    assert_unmoved(&trial, &[zombie.clone(), without_owner(&zombie)]).await;
    assert_eq!(trial.complete(&taken, &response(201)).await, Written::Done);
}

async fn doubt_leaves_only_in_flight(trial: Trial) {
    for (key, state) in [("a", StateName::Completed), ("b", StateName::Unknown)] {
        let lease = trial.acquire_and_bring_to(state, &request(key)).await;
        trial.advance(MOMENT).await;
        assert_unmoved(&trial, &[lease]).await;
    }
}

async fn doubt_needs_the_fence_and_the_owner_if_there_is_one(trial: Trial) {
    let lease = trial.acquire(&request("k")).await;
    let other = trial.acquire(&request("other")).await;
    assert_unmoved(&trial, &[Lease { fence: other.fence, ..lease.clone() }, of_a_stranger(&lease)]).await;
    assert_eq!(trial.doubt(&without_owner(&lease), &DoubtReason::RESET).await, Written::Done);
}

async fn doubt_of_an_absent_or_expired_record_is_stale(trial: Trial) {
    let (released, expired) = (request("a"), request("b"));
    let lease = trial.acquire(&released).await;
    assert_eq!(trial.release(&lease).await, Written::Done);
    assert_unmoved(&trial, &[lease]).await;
    let lease = trial.acquire(&expired).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_unmoved(&trial, &[lease]).await;
    assert!(trial.is_absent(&released).await && trial.is_absent(&expired).await);
}

async fn reasons_are_kept_in_the_callers_words(trial: Trial) {
    let longest = "ж".repeat(DoubtReason::LENGTH_MAX / 2);
    for (number, text) in ["it's \"quoted\" \\ ; --", "", " ", longest.as_str()].into_iter().enumerate() {
        let request = request(&format!("k{number}"));
        let (lease, reason) = (trial.acquire(&request).await, DoubtReason::new(text));
        assert_eq!(trial.doubt(&lease, &reason).await, Written::Done);
        let Claim::Unknown(Doubted { reason: told, .. }) = trial.claim(&repeat(&request)).await else {
            panic!("doubted just now")
        };
        assert_eq!(told.as_str(), text);
    }
}

async fn assert_unmoved(trial: &Trial, leases: &[Lease]) {
    for lease in leases {
        let before = trial.get(lease.record).await;
        assert_eq!(trial.doubt(lease, &DoubtReason::HANDLER_FAILED).await, Written::Stale, "under {lease:?}");
        assert_eq!(trial.get(lease.record).await, before, "a stale doubt changes nothing");
    }
}
