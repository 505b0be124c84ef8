//! One life: every state lives for the retention, counted from its last transition.

use std::time::Duration;

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, STATES, Trial, count, idempotent, other_body, repeat, request, response, under},
};
use crate::{ClaimRequest, DoubtReason, Record, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    every_write_moves_expires_at,
    a_late_write_never_gives_a_record_that_is_expired_already,
    an_expired_record_is_absent_for_a_claim_in_every_state,
    a_record_expires_at_its_very_instant,
    one_of_many_concurrent_claims_of_an_expired_record_acquires,
    retention_is_the_records_own,
    a_repeat_does_not_lengthen_a_life,
    an_abandoned_record_lives_for_its_retention,
];

async fn every_write_moves_expires_at(trial: Trial) {
    let plain = request("plain");
    let lease = trial.acquire(&plain).await;
    assert_lives_on(&trial, &plain).await;
    assert_eq!(trial.extend(&lease, LEASE).await, Written::Done);
    assert_lives_on(&trial, &plain).await;
    assert_eq!(trial.doubt(&lease, &DoubtReason::RESET).await, Written::Done);
    assert_lives_on(&trial, &plain).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_lives_on(&trial, &plain).await;

    let taken = idempotent("taken");
    trial.acquire(&taken).await;
    trial.advance(LEASE + MOMENT).await;
    let lease = trial.acquire(&repeat(&taken)).await;
    assert_lives_on(&trial, &taken).await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_lives_on(&trial, &taken).await;

    let abandoned = request("abandoned");
    trial.acquire(&abandoned).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&abandoned)).await, "unknown");
    assert_lives_on(&trial, &abandoned).await;
}

/// Right after a write the record has its whole retention before it; then time passes.
async fn assert_lives_on(trial: &Trial, request: &ClaimRequest) {
    let Record { expires_at, state, .. } = trial.record(request).await;
    assert!(trial.same_time(expires_at, trial.now().await.after(RETENTION)), "{expires_at:?} after {state:?}");
    trial.advance(MOMENT).await;
}

async fn a_late_write_never_gives_a_record_that_is_expired_already(trial: Trial) {
    let short = |request| under(&request, |policy| policy.retention = LEASE * 2);
    let late = LEASE * 2 - MOMENT;
    let (completed, doubted, taken) = (short(request("a")), short(request("b")), short(idempotent("c")));
    let (extended, reaped) = (short(request("d")), short(request("e")));
    let mut leases = Vec::new();
    for request in [&completed, &doubted, &taken, &extended, &reaped] {
        leases.push(trial.acquire(request).await);
    }
    trial.advance(late).await;
    assert_eq!(trial.complete(&leases[0], &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&doubted)).await, "unknown");
    assert_eq!(trial.outcome(&repeat(&taken)).await, "acquired");
    assert_eq!(trial.extend(&leases[3], MOMENT).await, Written::Done);
    assert_eq!(trial.reap(10).await.doubted, 1);
    trial.advance(late).await;
    for request in [&completed, &doubted, &taken, &extended, &reaped] {
        assert!(!trial.is_absent(request).await, "{:?}", request.id.key().as_str());
    }
}

async fn an_expired_record_is_absent_for_a_claim_in_every_state(trial: Trial) {
    for state in STATES {
        for (key, asking) in [("same", repeat as fn(&ClaimRequest) -> ClaimRequest), ("other", other_body)] {
            let first = request(&format!("{}-{key}", state.as_str()));
            let old = trial.acquire_and_bring_to(state, &first).await;
            trial.advance(RETENTION + MOMENT).await;
            let lease = trial.acquire(&asking(&first)).await;
            assert!(lease.fence > old.fence);
            assert_eq!((lease.attempt, lease.length), (1, LEASE), "{state:?}: a new life, not a takeover");
            assert!(lease.created_at > old.created_at);
        }
    }
}

async fn a_record_expires_at_its_very_instant(trial: Trial) {
    if !trial.stands_still() {
        return;
    }
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Completed, &first).await;
    trial.advance(RETENTION - Duration::from_micros(1)).await;
    assert_eq!(trial.replay(&repeat(&first)).await.expires_in, Duration::from_micros(1));
    trial.advance(Duration::from_micros(1)).await;
    assert_eq!(trial.outcome(&other_body(&first)).await, "acquired");
}

async fn one_of_many_concurrent_claims_of_an_expired_record_acquires(trial: Trial) {
    for round in 0..8 {
        let first = request(&format!("k{round}"));
        trial.acquire_and_bring_to(StateName::Completed, &first).await;
        trial.advance(RETENTION + MOMENT).await;
        let other = other_body(&first);
        let asking = |number| if number % 2 == 0 { repeat(&first) } else { repeat(&other) };
        let claims = trial.claims_at_once((0..16).map(asking).collect()).await;
        assert_eq!((count(&claims, "acquired"), count(&claims, "in_flight"), count(&claims, "mismatch")), (1, 7, 8));
    }
}

async fn retention_is_the_records_own(trial: Trial) {
    let keep = |key, retention| under(&request(key), |policy| policy.retention = retention);
    let (short, long) = (keep("short", RETENTION / 96), keep("long", RETENTION * 7));
    for request in [&short, &long] {
        trial.acquire_and_bring_to(StateName::Completed, request).await;
    }
    trial.advance(RETENTION / 96 + MOMENT).await;
    let asking = |first: &ClaimRequest| under(&repeat(first), |policy| policy.retention = RETENTION);
    assert_eq!(trial.outcome(&asking(&short)).await, "acquired", "the asker's retention does not count");
    trial.advance(RETENTION * 6).await;
    assert_eq!(trial.outcome(&asking(&long)).await, "completed", "the asker's retention does not count");
}

async fn a_repeat_does_not_lengthen_a_life(trial: Trial) {
    for state in [StateName::Completed, StateName::Unknown] {
        let first = request(state.as_str());
        trial.acquire_and_bring_to(state, &first).await;
        for _ in 0..3 {
            trial.advance(RETENTION / 4).await;
            assert_eq!(trial.outcome(&repeat(&first)).await, state.as_str());
        }
        trial.advance(RETENTION / 4 + MOMENT).await;
        assert_eq!(trial.outcome(&repeat(&first)).await, "acquired", "{state:?}");
    }
}

async fn an_abandoned_record_lives_for_its_retention(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(RETENTION - MOMENT).await;
    let lease = trial.acquire(&repeat(&first)).await;
    assert_eq!(lease.attempt, 2, "the record outlives its lease by far");
}
