//! purge: deletes a record on an operator's word, by compare-and-set on fence and state.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, STATES, Trial, idempotent, other_body, repeat, request, response},
};
use crate::{DoubtReason, Fence, RecordDigest, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    purge_deletes_by_state_and_force,
    purge_needs_the_state,
    purge_needs_the_fence,
    purge_of_an_abandoned_record_needs_no_force,
    purge_of_a_record_that_was_taken_over_is_stale,
    a_purged_record_is_absent_and_its_lease_is_shut_out,
    purge_of_an_absent_or_expired_record_is_stale,
    a_second_purge_is_stale,
];

async fn purge_deletes_by_state_and_force(trial: Trial) {
    for (state, force, expected) in [
        (StateName::InFlight, false, Written::Stale),
        (StateName::InFlight, true, Written::Done),
        (StateName::Completed, false, Written::Done),
        (StateName::Completed, true, Written::Done),
        (StateName::Unknown, false, Written::Done),
        (StateName::Unknown, true, Written::Done),
    ] {
        let request = request(&format!("{}-{force}", state.as_str()));
        let lease = trial.acquire_and_bring_to(state, &request).await;
        assert_eq!(trial.purge(lease.record, lease.fence, state, force).await, expected, "{state:?}, force {force}");
        assert_eq!(trial.is_absent(&request).await, expected == Written::Done, "{state:?}, force {force}");
    }
}

async fn purge_needs_the_state(trial: Trial) {
    for state in STATES {
        let lease = trial.acquire_and_bring_to(state, &request(state.as_str())).await;
        for other in STATES.into_iter().filter(|other| *other != state) {
            assert_kept(&trial, lease.record, lease.fence, other).await;
        }
    }
}

async fn purge_needs_the_fence(trial: Trial) {
    let mut leases = Vec::new();
    for state in STATES {
        leases.push((state, trial.acquire_and_bring_to(state, &request(state.as_str())).await));
    }
    for (state, lease) in &leases {
        for (_, other) in leases.iter().filter(|(other, _)| other != state) {
            assert_kept(&trial, lease.record, other.fence, *state).await;
        }
    }
}

async fn purge_of_an_abandoned_record_needs_no_force(trial: Trial) {
    for request in [request("plain"), idempotent("idempotent")] {
        let lease = trial.acquire(&request).await;
        trial.advance(LEASE - MOMENT).await;
        assert_eq!(trial.purge(lease.record, lease.fence, StateName::InFlight, false).await, Written::Stale);
        trial.advance(MOMENT * 2).await;
        assert_eq!(trial.purge(lease.record, lease.fence, StateName::InFlight, false).await, Written::Done);
        assert!(trial.is_absent(&request).await);
    }
}

async fn purge_of_a_record_that_was_taken_over_is_stale(trial: Trial) {
    let request = idempotent("k");
    let seen = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&repeat(&request)).await;
    assert_kept(&trial, seen.record, seen.fence, StateName::InFlight).await;
}

async fn a_purged_record_is_absent_and_its_lease_is_shut_out(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.purge(lease.record, lease.fence, StateName::InFlight, true).await, Written::Done);
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Stale);
    assert_eq!(trial.extend(&lease, LEASE).await, Written::Stale);
    assert_eq!(trial.doubt(&lease, &DoubtReason::TIMEOUT).await, Written::Stale);
    assert_eq!(trial.release(&lease).await, Written::Stale);
    assert_eq!(trial.withdraw(&request).await, Written::Stale);
    assert!(trial.is_absent(&request).await);
    assert_eq!(trial.acquire(&other_body(&request)).await.attempt, 1);
}

async fn purge_of_an_absent_or_expired_record_is_stale(trial: Trial) {
    let absent = request("absent").id.digest();
    assert_eq!(trial.purge(absent, Fence::new(1), StateName::Completed, true).await, Written::Stale);
    for state in STATES {
        let lease = trial.acquire_and_bring_to(state, &request(state.as_str())).await;
        trial.advance(RETENTION + MOMENT).await;
        assert_eq!(trial.purge(lease.record, lease.fence, state, true).await, Written::Stale, "{state:?}");
    }
}

async fn a_second_purge_is_stale(trial: Trial) {
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request("k")).await;
    assert_eq!(trial.purge(lease.record, lease.fence, StateName::Completed, false).await, Written::Done);
    assert_eq!(trial.purge(lease.record, lease.fence, StateName::Completed, false).await, Written::Stale);
}

async fn assert_kept(trial: &Trial, record: RecordDigest, fence: Fence, state: StateName) {
    let before = trial.get(record).await;
    assert!(before.is_some());
    for force in [false, true] {
        assert_eq!(trial.purge(record, fence, state, force).await, Written::Stale, "as {state:?}, force {force}");
    }
    assert_eq!(trial.get(record).await, before, "a stale purge changes nothing");
}
