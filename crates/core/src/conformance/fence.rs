//! The fence grows with every acquisition and is never reused, whatever ended the life before.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, Trial, idempotent, other_body, repeat, request, response, without_owner},
};
use crate::{ClaimRequest, DoubtReason, Lease, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    fence_grows_with_every_takeover,
    fence_is_never_reused_after_a_release,
    fence_is_never_reused_after_a_withdrawal,
    fence_is_never_reused_after_a_purge,
    fence_is_never_reused_after_expiry,
    fence_is_never_reused_after_reaping,
    fence_is_never_reused_through_another_handle,
];

async fn fence_grows_with_every_takeover(trial: Trial) {
    let first = idempotent("k");
    let mut lease = trial.acquire(&first).await;
    for _ in 2..=5 {
        trial.advance(lease.length + MOMENT).await;
        let next = trial.acquire(&repeat(&first)).await;
        assert!(next.fence > lease.fence, "{next:?} after {lease:?}");
        assert_is_shut_out(&trial, &lease).await;
        lease = next;
    }
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn fence_is_never_reused_after_a_release(trial: Trial) {
    let first = request("k");
    let old = trial.acquire(&first).await;
    assert_eq!(trial.release(&old).await, Written::Done);
    assert_is_reborn(&trial, &old, &first).await;
}

async fn fence_is_never_reused_after_a_withdrawal(trial: Trial) {
    let first = request("k");
    let old = trial.acquire(&first).await;
    assert_eq!(trial.withdraw(&first).await, Written::Done);
    assert_is_reborn(&trial, &old, &first).await;
}

async fn fence_is_never_reused_after_a_purge(trial: Trial) {
    let first = request("k");
    let old = trial.acquire_and_bring_to(StateName::Completed, &first).await;
    assert_eq!(trial.purge(old.record, old.fence, StateName::Completed, false).await, Written::Done);
    assert_is_reborn(&trial, &old, &first).await;
}

async fn fence_is_never_reused_after_expiry(trial: Trial) {
    let first = request("k");
    let old = trial.acquire_and_bring_to(StateName::Completed, &first).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_is_reborn(&trial, &old, &first).await;
}

async fn fence_is_never_reused_after_reaping(trial: Trial) {
    let first = request("k");
    let old = trial.acquire_and_bring_to(StateName::Unknown, &first).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_eq!(trial.reap(10).await.expired, 1, "nothing is left that could remember the fence");
    assert_is_reborn(&trial, &old, &first).await;
}

async fn fence_is_never_reused_through_another_handle(trial: Trial) {
    let first = request("k");
    let old = trial.acquire(&first).await;
    assert_eq!(trial.release(&old).await, Written::Done);
    assert_is_reborn(&trial.another().await, &old, &first).await;
}

/// The key begins a new life, also with another body, and the old life's lease cannot touch it.
async fn assert_is_reborn(trial: &Trial, old: &Lease, first: &ClaimRequest) {
    let reborn = other_body(first);
    let lease = trial.acquire(&reborn).await;
    assert!(lease.fence > old.fence, "{lease:?} after {old:?}");
    assert_eq!(lease.attempt, 1);
    assert_is_shut_out(trial, old).await;
    trial.advance(LEASE / 2).await;
    assert_eq!(trial.complete(&lease, &response(202)).await, Written::Done);
    assert_is_shut_out(trial, old).await;
    assert_eq!(trial.replay(&repeat(&reborn)).await.response.status, 202);
}

/// Every write under this lease is stale and changes nothing, with the owner or without.
async fn assert_is_shut_out(trial: &Trial, old: &Lease) {
    let before = trial.get(old.record).await;
    for lease in [old.clone(), without_owner(old)] {
        assert_eq!(trial.extend(&lease, LEASE).await, Written::Stale, "extend under {lease:?}");
        assert_eq!(trial.complete(&lease, &response(500)).await, Written::Stale, "complete under {lease:?}");
        assert_eq!(trial.doubt(&lease, &DoubtReason::TIMEOUT).await, Written::Stale, "doubt under {lease:?}");
        assert_eq!(trial.release(&lease).await, Written::Stale, "release under {lease:?}");
        for state in super::trial::STATES {
            assert_eq!(trial.purge(lease.record, lease.fence, state, true).await, Written::Stale, "purge as {state:?}");
        }
    }
    assert_eq!(trial.get(old.record).await, before);
}
