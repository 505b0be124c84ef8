//! What happens to a record whose lease ended while nothing was completed.

use std::time::Duration;

use super::{
    Case,
    trial::{
        LEASE, MOMENT, RETENTION, Trial, at_once, count, idempotent, other_body, policy, repeat, request, response,
        under, word,
    },
};
use crate::{
    Backend, Claim, ClaimRequest, DoubtReason, KeySpelling, OnAbandoned, Operation, Policy, State, StateName, Written,
};

pub(super) const CASES: &[Case] = cases![
    takeover_is_won_by_exactly_one_of_many,
    takeover_needs_both_policies,
    takeover_goes_by_the_declared_rule_and_not_by_the_backend,
    takeover_doubles_the_lease_up_to_ten_minutes,
    takeover_gives_no_less_than_the_takers_lease,
    takeover_gives_no_more_than_the_takers_retention,
    takeover_keeps_what_belongs_to_the_first_request,
    takeover_stores_the_takers_owner_and_retention,
    attempts_are_limited,
    a_lease_ends_at_its_very_instant,
    a_live_lease_is_not_taken_over,
    an_extended_lease_is_not_taken_over,
    a_plain_abandoned_record_becomes_unknown_by_a_repeat,
    one_of_many_concurrent_repeats_makes_it_unknown_for_all,
    an_unknown_record_stays_unknown_for_every_policy,
    c14_a_stale_lease_is_taken_whatever_the_takers_own_and_nobody_waits_for_others,
];

async fn takeover_is_won_by_exactly_one_of_many(trial: Trial) {
    for round in 0..8 {
        let first = idempotent(&format!("k{round}"));
        let dead = trial.acquire(&first).await;
        trial.advance(LEASE + MOMENT).await;
        let claims = trial.claims_at_once((0..16).map(|_| repeat(&first)).collect()).await;
        assert_eq!((count(&claims, "acquired"), count(&claims, "in_flight")), (1, 15));
        let record = trial.record(&first).await;
        assert_eq!(record.attempt, 2);
        assert!(record.fence > dead.fence);
    }
}

async fn takeover_needs_both_policies(trial: Trial) {
    for (key, recorded, asking, expected) in [
        ("a", Backend::Plain, Backend::Plain, "unknown"),
        ("b", Backend::Plain, Backend::Idempotent, "unknown"),
        ("c", Backend::Idempotent, Backend::Plain, "unknown"),
        ("d", Backend::Idempotent, Backend::Transactional, "acquired"),
    ] {
        let first = ClaimRequest { policy: policy(recorded), ..request(key) };
        trial.acquire(&first).await;
        trial.advance(LEASE + MOMENT).await;
        let taker = ClaimRequest { policy: policy(asking), ..repeat(&first) };
        assert_eq!(trial.outcome(&taker).await, expected, "{recorded:?} then {asking:?}");
    }
}

async fn takeover_goes_by_the_declared_rule_and_not_by_the_backend(trial: Trial) {
    for (key, backend, on_abandoned, expected) in [
        ("a", Backend::Plain, OnAbandoned::Takeover, "acquired"),
        ("b", Backend::Idempotent, OnAbandoned::Unknown, "unknown"),
        ("c", Backend::Transactional, OnAbandoned::Unknown, "unknown"),
    ] {
        let first = under(&request(key), |policy| (policy.backend, policy.on_abandoned) = (backend, on_abandoned));
        trial.acquire(&first).await;
        trial.advance(LEASE + MOMENT).await;
        assert_eq!(trial.outcome(&repeat(&first)).await, expected, "{backend:?} with {on_abandoned:?}");
    }
}

async fn takeover_doubles_the_lease_up_to_ten_minutes(trial: Trial) {
    let first = under(&idempotent("k"), |policy| policy.max_attempts = 20);
    let mut length = trial.acquire(&first).await.length;
    for attempt in 2..=8 {
        trial.advance(length + MOMENT).await;
        let (now, lease) = (trial.now().await, trial.acquire(&repeat(&first)).await);
        length = (length * 2).min(Policy::LEASE_DOUBLED_MAX);
        assert_eq!((lease.length, lease.attempt), (length, attempt));
        let record = trial.record(&first).await;
        assert_eq!(record.lease, length);
        let State::InFlight { lease_until } = record.state else { panic!("{record:?}") };
        assert!(trial.same_time(lease_until, now.after(length)), "{record:?}");
    }
    assert_eq!(length, Policy::LEASE_DOUBLED_MAX);
}

async fn takeover_gives_no_less_than_the_takers_lease(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let taker = under(&repeat(&first), |policy| policy.lease = Policy::LEASE_MAX);
    assert_eq!(trial.acquire(&taker).await.length, Policy::LEASE_MAX);
}

async fn takeover_gives_no_more_than_the_takers_retention(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let taker = under(&repeat(&first), |policy| policy.retention = LEASE + MOMENT);
    let lease = trial.acquire(&taker).await;
    assert_eq!(lease.length, LEASE + MOMENT, "the record must outlive its lease");
    let record = trial.record(&first).await;
    let State::InFlight { lease_until } = record.state else { panic!("{record:?}") };
    assert!(lease_until <= record.expires_at);
}

async fn takeover_keeps_what_belongs_to_the_first_request(trial: Trial) {
    let first = ClaimRequest { spelling: KeySpelling::Quoted, ..idempotent("k") };
    let dead = trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let taker = ClaimRequest {
        spelling: KeySpelling::Bare,
        operation: Operation::new("PUT", "/elsewhere"),
        policy: policy(Backend::Transactional),
        ..repeat(&first)
    };
    let lease = trial.acquire(&taker).await;
    assert_eq!((lease.spelling, lease.created_at), (KeySpelling::Quoted, dead.created_at));
    let record = trial.record(&first).await;
    assert_eq!((record.spelling, record.created_at), (KeySpelling::Quoted, dead.created_at));
    assert_eq!((&record.operation, record.backend), (&first.operation, Backend::Idempotent));
    assert_eq!(record.on_abandoned, OnAbandoned::Takeover);
}

async fn takeover_stores_the_takers_owner_and_retention(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let taker = under(&repeat(&first), |policy| policy.retention = RETENTION * 2);
    let (now, lease) = (trial.now().await, trial.acquire(&taker).await);
    let record = trial.record(&first).await;
    assert_eq!((record.owner, record.fence, record.retention), (taker.owner, lease.fence, RETENTION * 2));
    assert!(trial.same_time(record.expires_at, now.after(RETENTION * 2)), "{record:?}");
    assert_eq!(trial.outcome(&first).await, "in_flight", "the first owner is a stranger now");
}

async fn attempts_are_limited(trial: Trial) {
    let first = under(&idempotent("k"), |policy| policy.max_attempts = 3);
    let mut lease = trial.acquire(&first).await;
    for attempt in 2..=3 {
        trial.advance(lease.length + MOMENT).await;
        lease = trial.acquire(&repeat(&first)).await;
        assert_eq!(lease.attempt, attempt);
    }
    trial.advance(lease.length + MOMENT).await;
    let claim = trial.claim(&repeat(&first)).await;
    let Claim::Unknown(doubted) = claim else { panic!("{claim:?}") };
    assert_eq!(doubted.reason, DoubtReason::ATTEMPTS_EXHAUSTED);
    assert_eq!(trial.record(&first).await.state.name(), StateName::Unknown);
}

async fn a_lease_ends_at_its_very_instant(trial: Trial) {
    if !trial.stands_still() {
        return;
    }
    for (first, expected) in [(request("plain"), "unknown"), (idempotent("idempotent"), "acquired")] {
        trial.acquire(&first).await;
        trial.advance(LEASE - Duration::from_micros(1)).await;
        let claim = trial.claim(&repeat(&first)).await;
        assert_eq!(claim, Claim::InFlight { retry_after: Duration::from_micros(1) });
        trial.advance(Duration::from_micros(1)).await;
        assert_eq!(trial.outcome(&repeat(&first)).await, expected);
    }
}

async fn a_live_lease_is_not_taken_over(trial: Trial) {
    let first = idempotent("k");
    let lease = trial.acquire(&first).await;
    trial.advance(LEASE - MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&first)).await, "in_flight");
    let longer = under(&repeat(&first), |policy| policy.lease = LEASE * 4);
    let shorter = under(&repeat(&first), |policy| policy.lease = MOMENT);
    assert_eq!(trial.outcome(&longer).await, "in_flight", "the taker's terms do not matter while the lease lives");
    assert_eq!(trial.outcome(&shorter).await, "in_flight", "the taker's terms do not matter while the lease lives");
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn an_extended_lease_is_not_taken_over(trial: Trial) {
    let first = idempotent("k");
    let lease = trial.acquire(&first).await;
    for _ in 0..4 {
        trial.advance(LEASE - MOMENT).await;
        assert_eq!(trial.extend(&lease, LEASE).await, Written::Done);
    }
    trial.advance(LEASE - MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&first)).await, "in_flight");
    trial.advance(MOMENT * 2).await;
    assert_eq!(trial.outcome(&repeat(&first)).await, "acquired", "until nobody extends it");
}

async fn a_plain_abandoned_record_becomes_unknown_by_a_repeat(trial: Trial) {
    let first = request("k");
    let lease = trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let doubted_at = trial.now().await;
    let claim = trial.claim(&repeat(&first)).await;
    let Claim::Unknown(doubted) = claim else { panic!("{claim:?}") };
    assert_eq!(doubted.reason, DoubtReason::WORKER_DIED);
    assert!(trial.same_time(doubted.since, doubted_at), "{doubted:?}");
    trial.advance(MOMENT).await;
    assert_eq!(trial.claim(&repeat(&first)).await, Claim::Unknown(doubted.clone()), "told alike to every repeat");
    let record = trial.record(&first).await;
    assert_eq!((record.fence, record.attempt, record.owner), (lease.fence, 1, first.owner));
    assert_eq!(record.state, State::Unknown { since: doubted.since, reason: doubted.reason });
    assert!(trial.same_time(record.expires_at, doubted_at.after(RETENTION)), "{record:?}");
}

async fn one_of_many_concurrent_repeats_makes_it_unknown_for_all(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let claims = trial.claims_at_once((0..16).map(|_| repeat(&first)).collect()).await;
    assert!(claims.iter().all(|claim| word(claim) == "unknown" && *claim == claims[0]), "{claims:?}");
}

async fn an_unknown_record_stays_unknown_for_every_policy(trial: Trial) {
    let first = idempotent("k");
    trial.acquire_and_bring_to(StateName::Unknown, &first).await;
    trial.advance(LEASE * 5).await;
    for policy in [Backend::Plain, Backend::Idempotent, Backend::Transactional].map(policy) {
        assert_eq!(trial.outcome(&ClaimRequest { policy, ..repeat(&first) }).await, "unknown");
    }
    assert_eq!(trial.outcome(&first).await, "unknown", "also for its own claim");
    assert_eq!(trial.outcome(&other_body(&first)).await, "mismatch");
}

/// A public report: stores that disagreed on whose lease may take over a stale one, and a caller that a crowd kept
/// from ever being answered.
async fn c14_a_stale_lease_is_taken_whatever_the_takers_own_and_nobody_waits_for_others(trial: Trial) {
    for (key, length) in [("shorter", LEASE / 2), ("equal", LEASE), ("longer", LEASE * 2)] {
        let first = idempotent(key);
        let dead = trial.acquire(&first).await;
        let taker = under(&repeat(&first), |policy| policy.lease = length);
        assert_eq!(trial.outcome(&taker).await, "in_flight", "{key}");
        trial.advance(LEASE + MOMENT).await;
        assert!(trial.acquire(&taker).await.fence > dead.fence, "{key}");
    }
    let contended = idempotent("contended");
    let callers = (0..20).map(|_| claims_and_releases(trial.clone(), contended.clone()));
    let acquired: usize = at_once(callers).await.into_iter().sum();
    assert!(acquired > 0, "nobody ever got the lease");
    assert!(trial.is_absent(&contended).await);
}

/// Claims again and again, and gives back at once what it gets; answers how often that was.
async fn claims_and_releases(trial: Trial, contended: ClaimRequest) -> usize {
    let mut acquired = 0;
    for _ in 0..10 {
        match trial.claim(&repeat(&contended)).await {
            Claim::Acquired(lease) => {
                assert_eq!(trial.release(&lease).await, Written::Done);
                acquired += 1;
            }
            other => assert_eq!(word(&other), "in_flight"),
        }
    }
    acquired
}
