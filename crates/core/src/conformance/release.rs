//! release: gives the lease back, and a repeat executes.

use super::{
    Case,
    trial::{
        LEASE, MOMENT, RETENTION, Trial, idempotent, of_a_stranger, other_body, repeat, request, response,
        without_owner, word,
    },
};
use crate::{Claim, ClaimRequest, KeySpelling, Lease, Operation, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    release_makes_the_key_new,
    after_a_release_exactly_one_of_the_waiting_repeats_acquires,
    release_after_the_lease_ended_is_accepted_if_nobody_took_over,
    release_after_a_takeover_is_stale,
    release_of_a_takeover_leaves_what_was_abandoned,
    release_does_not_delete_a_completed_record,
    release_does_not_delete_a_record_that_its_backend_completed,
    release_does_not_delete_an_unknown_record,
    release_needs_the_fence_and_the_owner_if_there_is_one,
    a_second_release_is_stale,
    release_of_an_expired_record_is_stale,
];

async fn release_makes_the_key_new(trial: Trial) {
    let first = request("k");
    let lease = trial.acquire(&first).await;
    trial.advance(MOMENT).await;
    assert_eq!(trial.release(&lease).await, Written::Done);
    assert!(trial.is_absent(&first).await);
    let operation = Operation::new("PUT", "/elsewhere");
    let second = ClaimRequest { spelling: KeySpelling::Quoted, operation, ..other_body(&first) };
    let (now, lease) = (trial.now().await, trial.acquire(&second).await);
    assert_eq!((lease.attempt, lease.length, lease.spelling), (1, LEASE, KeySpelling::Quoted));
    assert!(trial.same_time(lease.created_at, now), "{lease:?}");
    assert_eq!(trial.record(&second).await.operation, second.operation);
}

async fn after_a_release_exactly_one_of_the_waiting_repeats_acquires(trial: Trial) {
    let first = request("k");
    let mut lease = trial.acquire(&first).await;
    for _ in 0..8 {
        assert_eq!(trial.outcome(&repeat(&first)).await, "in_flight");
        assert_eq!(trial.release(&lease).await, Written::Done);
        let claims = trial.claims_at_once((0..16).map(|_| repeat(&first)).collect()).await;
        let acquired: Vec<_> = claims.iter().filter(|claim| word(claim) == "acquired").collect();
        let [Claim::Acquired(next)] = acquired[..] else { panic!("{claims:?}") };
        lease = next.clone();
    }
}

async fn release_after_the_lease_ended_is_accepted_if_nobody_took_over(trial: Trial) {
    for request in [request("plain"), idempotent("idempotent")] {
        let lease = trial.acquire(&request).await;
        trial.advance(LEASE * 2).await;
        assert_eq!(trial.release(&lease).await, Written::Done);
        assert_eq!(trial.acquire(&repeat(&request)).await.attempt, 1);
    }
}

async fn release_after_a_takeover_is_stale(trial: Trial) {
    let request = idempotent("k");
    let zombie = trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    let taken = trial.acquire(&repeat(&request)).await;
    assert_kept(&trial, &[zombie.clone(), without_owner(&zombie)]).await;
    assert_eq!(trial.complete(&taken, &response(201)).await, Written::Done);
}

async fn release_of_a_takeover_leaves_what_was_abandoned(trial: Trial) {
    let request = idempotent("k");
    trial.acquire(&request).await;
    trial.advance(LEASE + MOMENT).await;
    for owner in [repeat(&request).owner, None] {
        let lease = trial.acquire(&ClaimRequest { owner, spelling: KeySpelling::Quoted, ..request.clone() }).await;
        trial.advance(MOMENT).await;
        assert_eq!(trial.release(&lease).await, Written::Done);
        trial.assert_abandoned_again(&lease).await;
        assert_kept(&trial, &[lease.clone(), without_owner(&lease)]).await;
        assert_eq!(trial.complete(&without_owner(&lease), &response(201)).await, Written::Stale);
    }
}

async fn release_does_not_delete_a_completed_record(trial: Trial) {
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request("k")).await;
    assert_kept(&trial, &[lease.clone(), without_owner(&lease)]).await;
}

async fn release_does_not_delete_a_record_that_its_backend_completed(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.complete(&without_owner(&lease), &response(201)).await, Written::Done);
    assert_kept(&trial, &[lease]).await;
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed", "a backend's completion keeps the fence");
}

async fn release_does_not_delete_an_unknown_record(trial: Trial) {
    let lease = trial.acquire_and_bring_to(StateName::Unknown, &request("k")).await;
    assert_kept(&trial, &[lease.clone(), without_owner(&lease)]).await;
}

async fn release_needs_the_fence_and_the_owner_if_there_is_one(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    let other = trial.acquire(&super::trial::request("other")).await;
    assert_kept(&trial, &[Lease { fence: other.fence, ..lease.clone() }, of_a_stranger(&lease)]).await;
    assert_eq!(trial.release(&without_owner(&lease)).await, Written::Done);
    assert!(trial.is_absent(&request).await);
}

async fn a_second_release_is_stale(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    assert_eq!(trial.release(&lease).await, Written::Done);
    assert_eq!(trial.release(&lease).await, Written::Stale);
    trial.acquire(&repeat(&request)).await;
    assert_kept(&trial, &[lease]).await;
}

async fn release_of_an_expired_record_is_stale(trial: Trial) {
    let lease = trial.acquire(&request("k")).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_eq!(trial.release(&lease).await, Written::Stale);
}

async fn assert_kept(trial: &Trial, leases: &[Lease]) {
    for lease in leases {
        let before = trial.get(lease.record).await;
        assert!(before.is_some());
        assert_eq!(trial.release(lease).await, Written::Stale, "under {lease:?}");
        assert_eq!(trial.get(lease.record).await, before, "a stale release changes nothing");
    }
}
