//! claim: who executes, and what everybody else is told.

use std::{collections::HashSet, time::Duration};

use super::{
    Case,
    trial::{
        LEASE, MOMENT, RETENTION, STATES, Trial, count, fingerprint, idempotent, other_body, repeat, request,
        request_in, response, word,
    },
};
use crate::{
    Backend, Claim, ClaimRequest, FirstUse, IdempotencyKey, KeySpelling, OnAbandoned, Operation, Scope, State,
    StateName, Written,
};

pub(super) const CASES: &[Case] = cases![
    the_first_claim_acquires_under_the_terms_of_its_policy,
    the_record_keeps_what_the_claim_said,
    exactly_one_of_many_concurrent_claims_acquires,
    concurrent_claims_of_different_keys_all_acquire,
    own_claim_is_recognised_after_a_lost_reply,
    own_claim_is_acquired_again_after_its_lease_ended,
    claims_without_an_owner_do_not_recognise_each_other,
    a_repeat_is_told_what_is_left_of_the_lease,
    a_completed_record_is_replayed_with_its_times,
    mismatch_is_judged_before_in_flight,
    mismatch_is_judged_while_completed,
    mismatch_is_judged_while_unknown,
    mismatch_is_judged_before_an_abandoned_record_changes,
    mismatch_tells_the_first_operation_and_state,
    another_body_of_the_same_owner_is_a_mismatch,
    fingerprints_under_other_rules_are_neither_replayed_nor_executed,
    opaque_fingerprints_are_compared_byte_by_byte,
    every_concurrent_repeat_is_judged_by_its_own_fingerprint,
    a_repeat_writes_nothing,
    scopes_and_keys_with_separators_do_not_collide,
    one_key_in_two_scopes_is_two_records,
    long_keys_that_differ_at_the_end_are_two_records,
    the_longest_scope_key_and_operation_are_kept,
];

async fn the_first_claim_acquires_under_the_terms_of_its_policy(trial: Trial) {
    let request = ClaimRequest { spelling: KeySpelling::Quoted, ..request("k") };
    let asked = trial.now().await;
    let lease = trial.acquire(&request).await;
    assert_eq!((lease.record, lease.owner, lease.attempt), (request.id.digest(), request.owner, 1));
    assert_eq!((lease.length, lease.spelling), (LEASE, KeySpelling::Quoted));
    assert!(trial.same_time(lease.created_at, asked), "{lease:?}, asked at {asked:?}");
}

async fn the_record_keeps_what_the_claim_said(trial: Trial) {
    for (key, backend, on_abandoned, owner) in [
        ("a", Backend::Plain, OnAbandoned::Unknown, true),
        ("b", Backend::Plain, OnAbandoned::Takeover, false),
        ("c", Backend::Idempotent, OnAbandoned::Unknown, true),
        ("d", Backend::Transactional, OnAbandoned::Takeover, false),
    ] {
        let base = request_in("x-org=4:acme", key);
        let request = ClaimRequest {
            owner: base.owner.filter(|_| owner),
            operation: Operation::new("PATCH", "/o'clock/\"ж\";--"),
            ..super::trial::under(&base, |policy| (policy.backend, policy.on_abandoned) = (backend, on_abandoned))
        };
        let (now, lease) = (trial.now().await, trial.acquire(&request).await);
        let record = trial.record(&request).await;
        assert_eq!(
            (&record.id, &record.operation, record.spelling),
            (&request.id, &request.operation, request.spelling)
        );
        assert_eq!((record.fingerprint, record.owner), (request.fingerprint, request.owner));
        assert_eq!((record.backend, record.on_abandoned), (backend, on_abandoned));
        assert_eq!((record.fence, record.attempt), (lease.fence, 1));
        assert_eq!((record.lease, record.retention, record.created_at), (LEASE, RETENTION, lease.created_at));
        assert!(trial.same_time(record.expires_at, now.after(RETENTION)), "{record:?}");
        let State::InFlight { lease_until } = record.state else { panic!("{record:?}") };
        assert!(trial.same_time(lease_until, now.after(LEASE)), "{record:?}");
    }
}

async fn exactly_one_of_many_concurrent_claims_acquires(trial: Trial) {
    for round in 0..8 {
        let first = request(&format!("k{round}"));
        let claims = trial.claims_at_once((0..32).map(|_| repeat(&first)).collect()).await;
        assert_eq!((count(&claims, "acquired"), count(&claims, "in_flight")), (1, 31));
    }
}

async fn concurrent_claims_of_different_keys_all_acquire(trial: Trial) {
    let claims = trial.claims_at_once((0..32).map(|number| request(&format!("k{number}"))).collect()).await;
    assert_eq!(count(&claims, "acquired"), 32);
}

async fn own_claim_is_recognised_after_a_lost_reply(trial: Trial) {
    let request = request("k");
    let lost = trial.acquire(&request).await;
    trial.advance(MOMENT).await;
    let before = trial.record(&request).await;
    let recognised = trial.acquire(&request).await;
    assert_eq!((recognised.fence, recognised.owner, recognised.attempt), (lost.fence, lost.owner, 1));
    assert!(trial.same_length(recognised.length, LEASE - MOMENT), "the length is what is left: {recognised:?}");
    assert_eq!(trial.record(&request).await, before, "recognising writes nothing");
    assert_eq!(trial.complete(&recognised, &response(201)).await, Written::Done);
}

async fn own_claim_is_acquired_again_after_its_lease_ended(trial: Trial) {
    for request in [request("plain"), idempotent("idempotent")] {
        let lost = trial.acquire(&request).await;
        trial.advance(LEASE + MOMENT).await;
        let again = trial.acquire(&request).await;
        assert!(again.fence > lost.fence, "{again:?} after {lost:?}");
        assert_eq!((again.attempt, again.length), (1, LEASE), "neither a takeover nor a doubt");
        assert_eq!(again.created_at, lost.created_at);
        assert_eq!(trial.complete(&lost, &response(500)).await, Written::Stale, "the lost reply is shut out");
        assert_eq!(trial.complete(&again, &response(201)).await, Written::Done);
    }
}

async fn claims_without_an_owner_do_not_recognise_each_other(trial: Trial) {
    let request = ClaimRequest { owner: None, ..request("k") };
    trial.acquire(&request).await;
    assert_eq!(trial.outcome(&request).await, "in_flight");
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.outcome(&request).await, "unknown", "nobody's own claim comes back after the lease either");
}

async fn a_repeat_is_told_what_is_left_of_the_lease(trial: Trial) {
    let request = request("k");
    trial.acquire(&request).await;
    for waited in 0..3 {
        let claim = trial.claim(&repeat(&request)).await;
        let Claim::InFlight { retry_after } = claim else { panic!("{claim:?}") };
        assert!(trial.same_length(retry_after, LEASE - waited * MOMENT), "{retry_after:?} after {waited} moments");
        assert!(retry_after <= LEASE);
        if waited < 2 {
            trial.advance(MOMENT).await;
        }
    }
}

async fn a_completed_record_is_replayed_with_its_times(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    trial.advance(MOMENT).await;
    let completed_at = trial.now().await;
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    trial.advance(LEASE * 3).await;
    for repeat in [repeat(&request), request, ClaimRequest { owner: None, ..idempotent("k") }] {
        let completed = trial.replay(&repeat).await;
        assert_eq!(*completed.response, response(201));
        assert!(trial.same_time(completed.completed_at, completed_at), "{completed:?}");
        assert_eq!(completed.expires_at, trial.record(&repeat).await.expires_at);
        assert!(trial.same_length(completed.expires_in, RETENTION - LEASE * 3), "{completed:?}");
    }
}

async fn mismatch_is_judged_before_in_flight(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    assert_eq!(trial.outcome(&other_body(&first)).await, "mismatch");
    assert_eq!(trial.outcome(&repeat(&first)).await, "in_flight", "the first request goes on");
}

async fn mismatch_is_judged_while_completed(trial: Trial) {
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Completed, &first).await;
    assert_eq!(trial.outcome(&other_body(&first)).await, "mismatch");
    assert_eq!(trial.outcome(&repeat(&first)).await, "completed");
}

async fn mismatch_is_judged_while_unknown(trial: Trial) {
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Unknown, &first).await;
    assert_eq!(trial.outcome(&other_body(&first)).await, "mismatch");
    assert_eq!(trial.outcome(&repeat(&first)).await, "unknown");
}

async fn mismatch_is_judged_before_an_abandoned_record_changes(trial: Trial) {
    for first in [request("plain"), idempotent("idempotent")] {
        trial.acquire(&first).await;
        trial.advance(LEASE + MOMENT).await;
        let before = trial.record(&first).await;
        assert_eq!(trial.outcome(&other_body(&first)).await, "mismatch");
        assert_eq!(trial.record(&first).await, before, "neither taken over nor doubted");
    }
}

async fn mismatch_tells_the_first_operation_and_state(trial: Trial) {
    for (key, state) in ["a", "b", "c"].into_iter().zip(STATES) {
        let first = ClaimRequest { operation: Operation::new("POST", "/first"), ..request(key) };
        trial.acquire_and_bring_to(state, &first).await;
        let other = ClaimRequest { operation: Operation::new("PUT", "/second"), ..other_body(&first) };
        let told = FirstUse { operation: first.operation.clone(), state };
        assert_eq!(trial.claim(&other).await, Claim::Mismatch(told));
    }
}

async fn another_body_of_the_same_owner_is_a_mismatch(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    let other = ClaimRequest { fingerprint: fingerprint(&[2]), ..first };
    assert_eq!(trial.outcome(&other).await, "mismatch");
}

async fn fingerprints_under_other_rules_are_neither_replayed_nor_executed(trial: Trial) {
    let structured = |rules: u8, hash: u8| fingerprint(&[&[1, rules][..], &[0; 7], &[hash; 32]].concat());
    for (key, state) in ["a", "b", "c"].into_iter().zip(STATES) {
        let first = ClaimRequest { fingerprint: structured(1, 1), ..idempotent(key) };
        trial.acquire_and_bring_to(state, &first).await;
        let before = trial.record(&first).await;
        for incomparable in [structured(2, 1), fingerprint(&[1]), fingerprint(&[1; 40])] {
            let claim = trial.claim(&ClaimRequest { fingerprint: incomparable, ..repeat(&first) }).await;
            assert_eq!(claim, Claim::RulesChanged { recorded: first.fingerprint });
        }
        let other = ClaimRequest { fingerprint: structured(1, 2), ..repeat(&first) };
        assert_eq!(trial.outcome(&other).await, "mismatch", "the same rules can tell");
        assert_eq!(trial.record(&first).await, before);
    }
}

async fn opaque_fingerprints_are_compared_byte_by_byte(trial: Trial) {
    let bytes: [&[u8]; 6] = [&[0], &[0, 0], &[1], &[255; 63], &[255; 64], b"a'b"];
    for (number, first) in bytes.iter().enumerate() {
        let request = ClaimRequest { fingerprint: fingerprint(first), ..request(&format!("k{number}")) };
        trial.acquire(&request).await;
        for other in bytes.iter().filter(|other| *other != first) {
            let other = ClaimRequest { fingerprint: fingerprint(other), ..repeat(&request) };
            assert_eq!(trial.outcome(&other).await, "mismatch");
        }
        assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight");
    }
}

async fn every_concurrent_repeat_is_judged_by_its_own_fingerprint(trial: Trial) {
    for (key, state, expected) in [("a", StateName::InFlight, "in_flight"), ("b", StateName::Completed, "completed")] {
        let first = request(key);
        trial.acquire_and_bring_to(state, &first).await;
        let asking = |number| if number % 2 == 0 { repeat(&first) } else { other_body(&first) };
        let claims = trial.claims_at_once((0..16).map(asking).collect()).await;
        let words: Vec<_> = claims.iter().map(word).collect();
        assert_eq!(words, [expected, "mismatch"].repeat(8));
    }
}

async fn a_repeat_writes_nothing(trial: Trial) {
    for (key, state) in ["a", "b", "c"].into_iter().zip(STATES) {
        let first = idempotent(key);
        trial.acquire_and_bring_to(state, &first).await;
        let before = trial.get(first.id.digest()).await;
        trial.advance(MOMENT).await;
        for repeat in [repeat(&first), other_body(&first), first.clone()] {
            trial.claim(&repeat).await;
            assert_eq!(trial.get(first.id.digest()).await, before, "{state:?}");
        }
    }
}

async fn scopes_and_keys_with_separators_do_not_collide(trial: Trial) {
    let pairs = [
        ("", "a:b"),
        ("a", "b"),
        ("a:", "b"),
        ("a", ":b"),
        (":a", "b"),
        ("a;", "b"),
        ("a", ";b"),
        ("a\n", "b"),
        ("a b", "c"),
        ("a", "b'c"),
        ("a'", "b"),
        ("a%", "b"),
        ("a_", "b"),
        ("a\\", "b"),
        ("a", "\\b"),
        ("A", "b"),
        ("a", "B"),
        ("a ", "b"),
        ("ä", "b"),
        ("a\u{308}", "b"),
        ("ab", "c"),
        ("a", "bc"),
        ("x=1:a", "b"),
        ("x#1:a", "b"),
        ("{a}", "b"),
        ("a", "{b}"),
    ];
    let mut digests = HashSet::new();
    for (scope, key) in pairs {
        let request = request_in(scope, key);
        assert_eq!(trial.outcome(&request).await, "acquired", "{scope:?} {key:?}");
        assert!(digests.insert(request.id.digest()));
    }
    for (scope, key) in pairs {
        let record = trial.record(&request_in(scope, key)).await;
        assert_eq!((record.id.scope().as_str(), record.id.key().as_str()), (scope, key));
    }
}

async fn one_key_in_two_scopes_is_two_records(trial: Trial) {
    let (mine, yours) = (request_in("x-org=1:a", "k"), request_in("x-org=1:b", "k"));
    trial.acquire_and_bring_to(StateName::Completed, &mine).await;
    let lease = trial.acquire(&yours).await;
    assert_eq!(trial.complete(&lease, &response(202)).await, Written::Done);
    assert_eq!(trial.replay(&mine).await.response.status, 201);
    assert_eq!(trial.replay(&yours).await.response.status, 202);
}

async fn long_keys_that_differ_at_the_end_are_two_records(trial: Trial) {
    for length in [127, 200, IdempotencyKey::LENGTH_MAX - 1] {
        let prefix = "a".repeat(length);
        let (one, two) = (request(&format!("{prefix}1")), request(&format!("{prefix}2")));
        assert_eq!(trial.outcome(&one).await, "acquired");
        assert_eq!(trial.outcome(&two).await, "acquired");
        assert_eq!(trial.record(&two).await.id, two.id);
    }
}

async fn the_longest_scope_key_and_operation_are_kept(trial: Trial) {
    let (scope, key) = ("ж".repeat(Scope::LENGTH_MAX / 2), "k".repeat(IdempotencyKey::LENGTH_MAX));
    let path = "/".repeat(Operation::LENGTH_MAX);
    let request = ClaimRequest { operation: Operation::new("POST", &path), ..request_in(&scope, &key) };
    let lease = trial.acquire(&request).await;
    let record = trial.record(&request).await;
    assert_eq!((record.id, record.operation), (request.id.clone(), request.operation.clone()));
    assert_eq!(trial.extend(&lease, Duration::from_mins(1)).await, Written::Done);
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&request)).await, "completed");
}
