//! withdraw: undoes, by owner, a claim whose caller gave up before anything was sent.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, Trial, idempotent, other_body, repeat, request, response},
};
use crate::{ClaimRequest, KeySpelling, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    withdrawal_makes_the_key_new,
    withdrawal_needs_the_owner,
    withdrawal_of_a_repeat_does_not_touch_the_first_claim,
    a_claim_without_an_owner_cannot_be_withdrawn,
    withdrawal_after_the_lease_ended_is_accepted_if_nobody_took_over,
    withdrawal_after_a_takeover_is_stale,
    withdrawal_after_completion_is_stale,
    what_was_never_sent_does_not_stay_unknown,
    withdrawal_of_a_takeover_leaves_what_was_abandoned,
    a_second_withdrawal_is_stale,
    withdrawal_of_an_absent_or_expired_record_is_stale,
    the_next_claim_after_a_withdrawal_is_a_new_one,
];

async fn withdrawal_makes_the_key_new(trial: Trial) {
    for first in [request("plain"), idempotent("idempotent")] {
        trial.acquire(&first).await;
        assert_eq!(trial.withdraw(&first).await, Written::Done);
        assert!(trial.is_absent(&first).await);
        assert_eq!(trial.acquire(&other_body(&first)).await.attempt, 1);
    }
}

async fn withdrawal_needs_the_owner(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    assert_kept(&trial, &repeat(&first)).await;
    assert_kept(&trial, &other_body(&first)).await;
}

async fn withdrawal_of_a_repeat_does_not_touch_the_first_claim(trial: Trial) {
    let first = request("k");
    let lease = trial.acquire(&first).await;
    let waiting = repeat(&first);
    assert_eq!(trial.outcome(&waiting).await, "in_flight");
    assert_kept(&trial, &waiting).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn a_claim_without_an_owner_cannot_be_withdrawn(trial: Trial) {
    let first = ClaimRequest { owner: None, ..request("k") };
    trial.acquire(&first).await;
    assert_kept(&trial, &repeat(&first)).await;
}

async fn withdrawal_after_the_lease_ended_is_accepted_if_nobody_took_over(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    trial.advance(LEASE * 2).await;
    assert_eq!(trial.withdraw(&first).await, Written::Done, "what was never sent must not end as unknown");
    assert_eq!(trial.outcome(&repeat(&first)).await, "acquired");
}

async fn withdrawal_after_a_takeover_is_stale(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&repeat(&first)).await;
    assert_kept(&trial, &first).await;
}

async fn withdrawal_after_completion_is_stale(trial: Trial) {
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Completed, &first).await;
    assert_kept(&trial, &first).await;
}

async fn what_was_never_sent_does_not_stay_unknown(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&first)).await, "unknown");
    assert_kept(&trial, &repeat(&first)).await;
    assert_eq!(trial.withdraw(&first).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&first)).await, "acquired");
}

async fn withdrawal_of_a_takeover_leaves_what_was_abandoned(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let second = ClaimRequest { spelling: KeySpelling::Quoted, ..repeat(&first) };
    let lease = trial.acquire(&second).await;
    assert_eq!(trial.withdraw(&second).await, Written::Done);
    trial.assert_abandoned_again(&lease).await;
    assert_kept(&trial, &second).await;
}

async fn a_second_withdrawal_is_stale(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    assert_eq!(trial.withdraw(&first).await, Written::Done);
    assert_eq!(trial.withdraw(&first).await, Written::Stale);
    trial.acquire(&repeat(&first)).await;
    assert_kept(&trial, &first).await;
}

async fn withdrawal_of_an_absent_or_expired_record_is_stale(trial: Trial) {
    let first = request("k");
    assert_eq!(trial.withdraw(&first).await, Written::Stale);
    trial.acquire(&first).await;
    trial.advance(RETENTION + MOMENT).await;
    assert_eq!(trial.withdraw(&first).await, Written::Stale);
}

async fn the_next_claim_after_a_withdrawal_is_a_new_one(trial: Trial) {
    let first = request("k");
    let old = trial.acquire(&first).await;
    assert_eq!(trial.withdraw(&first).await, Written::Done);
    let new = trial.acquire(&repeat(&first)).await;
    assert!(new.fence > old.fence);
    assert_eq!(trial.complete(&old, &response(500)).await, Written::Stale);
    assert_eq!(trial.complete(&new, &response(201)).await, Written::Done);
}

async fn assert_kept(trial: &Trial, request: &ClaimRequest) {
    let before = trial.get(request.id.digest()).await;
    assert!(before.is_some());
    assert_eq!(trial.withdraw(request).await, Written::Stale);
    assert_eq!(trial.get(request.id.digest()).await, before, "a stale withdrawal changes nothing");
}
