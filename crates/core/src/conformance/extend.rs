//! extend: pushes the lease's end, and nothing else.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, Trial, idempotent, of_a_stranger, repeat, request, without_owner},
};
use crate::{Lease, Record, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    extend_moves_the_leases_end_to_a_length_from_now,
    extend_keeps_everything_but_the_two_ends,
    extend_may_shorten_the_lease,
    extend_after_the_lease_ended_is_accepted_if_nobody_took_over,
    extend_after_a_takeover_is_stale,
    extend_leaves_only_in_flight,
    extend_needs_the_fence_and_the_owner_if_there_is_one,
    extend_of_an_absent_record_is_stale,
    extend_of_an_expired_record_is_stale,
    a_record_outlives_a_lease_that_was_extended_beyond_its_retention,
];

fn lease_until(record: &Record) -> crate::Timestamp {
    match record.state {
        State::InFlight { lease_until } => lease_until,
        State::Completed { .. } | State::Unknown { .. } => panic!("the record must be in flight: {record:?}"),
    }
}

async fn extend_moves_the_leases_end_to_a_length_from_now(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    for length in [LEASE, LEASE * 3] {
        trial.advance(MOMENT).await;
        let now = trial.now().await;
        assert_eq!(trial.extend(&lease, length).await, Written::Done);
        let record = trial.record(&request).await;
        assert!(trial.same_time(lease_until(&record), now.after(length)), "{record:?}");
        assert!(trial.same_time(record.expires_at, now.after(RETENTION)), "{record:?}");
    }
    trial.advance(LEASE * 2).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight");
}

async fn extend_keeps_everything_but_the_two_ends(trial: Trial) {
    let request = idempotent("k");
    let lease = trial.acquire(&request).await;
    let before = trial.record(&request).await;
    trial.advance(MOMENT).await;
    assert_eq!(trial.extend(&lease, LEASE * 4).await, Written::Done);
    let after = trial.record(&request).await;
    let expected = Record { state: after.state.clone(), expires_at: after.expires_at, ..before };
    assert_eq!(after, expected);
    trial.advance(LEASE * 4 + MOMENT).await;
    let taken = trial.acquire(&repeat(&request)).await;
    assert_eq!(taken.length, LEASE * 2, "a takeover doubles the lease as it was given");
}

async fn extend_may_shorten_the_lease(trial: Trial) {
    let request = idempotent("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.extend(&lease, MOMENT).await, Written::Done);
    trial.advance(MOMENT * 2).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "acquired");
}

async fn extend_after_the_lease_ended_is_accepted_if_nobody_took_over(trial: Trial) {
    for request in [request("plain"), idempotent("idempotent")] {
        let lease = trial.acquire(&request).await;
        trial.advance(LEASE * 2).await;
        assert_eq!(trial.extend(&lease, LEASE).await, Written::Done);
        assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight");
    }
}

async fn extend_after_a_takeover_is_stale(trial: Trial) {
    let request = idempotent("k");
    let zombie = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&repeat(&request)).await;
    assert_unmoved(&trial, &[zombie.clone(), without_owner(&zombie)]).await;
}

async fn extend_leaves_only_in_flight(trial: Trial) {
    for (key, state) in [("a", StateName::Completed), ("b", StateName::Unknown)] {
        let lease = trial.acquire_and_bring_to(state, &request(key)).await;
        trial.advance(MOMENT).await;
        assert_unmoved(&trial, &[lease]).await;
    }
}

async fn extend_needs_the_fence_and_the_owner_if_there_is_one(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    let foreign = trial.acquire(&super::trial::request("other")).await;
    let of_another_fence = Lease { fence: foreign.fence, ..lease.clone() };
    trial.advance(MOMENT).await;
    assert_unmoved(&trial, &[of_another_fence, of_a_stranger(&lease)]).await;
    assert_eq!(trial.extend(&without_owner(&lease), LEASE).await, Written::Done);
}

async fn extend_of_an_absent_record_is_stale(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.release(&lease).await, Written::Done);
    assert_unmoved(&trial, &[lease]).await;
    assert!(trial.is_absent(&request).await);
}

async fn extend_of_an_expired_record_is_stale(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_unmoved(&trial, &[lease]).await;
    assert!(trial.is_absent(&request).await);
}

async fn a_record_outlives_a_lease_that_was_extended_beyond_its_retention(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.extend(&lease, RETENTION * 2).await, Written::Done);
    trial.advance(RETENTION * 2 - MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight", "the key is not free while its lease lives");
    assert_eq!(trial.extend(&lease, LEASE).await, Written::Done);
    let record = trial.record(&request).await;
    assert!(trial.same_time(record.expires_at, trial.now().await.after(RETENTION)), "{record:?}");
}

async fn assert_unmoved(trial: &Trial, leases: &[Lease]) {
    for lease in leases {
        let before = trial.get(lease.record).await;
        assert_eq!(trial.extend(lease, LEASE * 7).await, Written::Stale, "under {lease:?}");
        assert_eq!(trial.get(lease.record).await, before, "a stale extension changes nothing");
    }
}
