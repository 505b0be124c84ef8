use super::*;
use crate::{Backend, IdempotencyKey, Scope};

const LEASE: Duration = Duration::from_secs(30);
const START: Timestamp = Timestamp::from_micros(1_000_000_000);

fn request(backend: Backend, body: u8) -> ClaimRequest {
    let key = IdempotencyKey::new("k").unwrap();
    ClaimRequest {
        id: RecordId::new(Scope::anonymous(), key),
        fingerprint: Fingerprint::from_bytes(&[body]).unwrap(),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/payments"),
        spelling: KeySpelling::Quoted,
        policy: Arc::new(Policy::gateway(backend)),
    }
}

fn in_flight(request: &ClaimRequest, attempt: u32) -> Record {
    Record::acquired(request, None, Fence::new(7), (attempt, LEASE), START)
}

fn completed(request: &ClaimRequest) -> Record {
    let state = State::Completed { completed_at: START, status: 201 };
    Record { state, ..in_flight(request, 1) }
}

#[test]
fn an_absent_or_expired_record_is_acquired() {
    let request = request(Backend::Plain, 1);
    let acquire = Decision::Acquire { attempt: 1, lease: LEASE };
    assert_eq!(decide(None, &request, START), acquire);
    let record = completed(&request);
    assert_eq!(decide(Some(&record), &request, record.expires_at), acquire);
}

#[test]
fn another_fingerprint_is_a_mismatch_in_every_state() {
    let (first, other) = (request(Backend::Plain, 1), request(Backend::Plain, 2));
    let unknown = in_flight(&first, 1).doubted(DoubtReason::TIMEOUT, START);
    for record in [in_flight(&first, 1), completed(&first), unknown] {
        let decision = decide(Some(&record), &other, START);
        assert_eq!(decision, Decision::Answer(Claim::Mismatch(record.first_use())));
        let long_after_the_lease = decide(Some(&record), &other, START.after(LEASE * 2));
        assert_eq!(long_after_the_lease, decision);
    }
}

#[test]
fn a_fingerprint_under_other_rules_is_neither_replayed_nor_executed() {
    let mut structured = request(Backend::Plain, 1);
    structured.fingerprint = Fingerprint::from_bytes(&[1; Fingerprint::STRUCTURED_LENGTH]).unwrap();
    let mut other_rules = structured.clone();
    other_rules.fingerprint = Fingerprint::from_bytes(&[2; Fingerprint::STRUCTURED_LENGTH]).unwrap();
    let record = completed(&structured);
    let expected = Decision::Answer(Claim::RulesChanged { recorded: record.fingerprint });
    assert_eq!(decide(Some(&record), &other_rules, START), expected);
    assert_eq!(decide(Some(&record), &request(Backend::Plain, 1), START), expected);
}

#[test]
fn a_completed_record_is_replayed() {
    let request = request(Backend::Plain, 1);
    let record = completed(&request);
    let now = START.after(LEASE);
    let (expires_at, expires_in) = (record.expires_at, record.expires_at.since(now));
    assert_eq!(decide(Some(&record), &request, now), Decision::Replay { completed_at: START, expires_at, expires_in });
}

#[test]
fn a_live_lease_is_in_flight_for_others_and_recognised_by_its_owner() {
    let first = request(Backend::Plain, 1);
    let record = in_flight(&first, 1);
    let now = START.after(LEASE / 3);
    let stranger = request(Backend::Plain, 1);
    let expected = Claim::InFlight { retry_after: LEASE - LEASE / 3 };
    assert_eq!(decide(Some(&record), &stranger, now), Decision::Answer(expected));
    let recognised = record.leased(LEASE - LEASE / 3);
    assert_eq!(decide(Some(&record), &first, now), Decision::Answer(Claim::Acquired(recognised)));
}

#[test]
fn callers_without_a_token_do_not_recognise_each_other() {
    let anonymous = ClaimRequest { owner: None, ..request(Backend::Plain, 1) };
    let record = in_flight(&anonymous, 1);
    let expected = Decision::Answer(Claim::InFlight { retry_after: LEASE });
    assert_eq!(decide(Some(&record), &anonymous, START), expected);
}

#[test]
fn an_abandoned_record_before_a_plain_backend_becomes_unknown() {
    let request = request(Backend::Plain, 1);
    let stranger = ClaimRequest { owner: None, ..request.clone() };
    let record = in_flight(&request, 1);
    let decision = decide(Some(&record), &stranger, START.after(LEASE));
    assert_eq!(decision, Decision::Doubt(DoubtReason::WORKER_DIED));
}

#[test]
fn an_abandoned_claim_of_my_own_is_acquired_again() {
    let request = request(Backend::Plain, 1);
    let record = in_flight(&request, 3);
    let decision = decide(Some(&record), &request, START.after(LEASE));
    assert_eq!(decision, Decision::Acquire { attempt: 3, lease: LEASE });
}

#[test]
fn a_takeover_needs_both_policies() {
    for (recorded, asking) in [(Backend::Plain, Backend::Idempotent), (Backend::Idempotent, Backend::Plain)] {
        let record = in_flight(&request(recorded, 1), 1);
        let decision = decide(Some(&record), &request(asking, 1), START.after(LEASE));
        assert_eq!(decision, Decision::Doubt(DoubtReason::WORKER_DIED));
    }
}

#[test]
fn a_takeover_doubles_the_lease_up_to_ten_minutes() {
    let request_of = || request(Backend::Idempotent, 1);
    let mut record = in_flight(&request_of(), 1);
    let decision = decide(Some(&record), &request_of(), START.after(LEASE));
    assert_eq!(decision, Decision::Acquire { attempt: 2, lease: LEASE * 2 });
    record.lease = Duration::from_mins(8);
    let decision = decide(Some(&record), &request_of(), START.after(LEASE));
    assert_eq!(decision, Decision::Acquire { attempt: 2, lease: Duration::from_mins(10) });
}

#[test]
fn attempts_are_limited() {
    let record = in_flight(&request(Backend::Idempotent, 1), 5);
    let decision = decide(Some(&record), &request(Backend::Idempotent, 1), START.after(LEASE));
    assert_eq!(decision, Decision::Doubt(DoubtReason::ATTEMPTS_EXHAUSTED));
}

#[test]
fn an_unknown_record_stays_unknown_for_every_policy() {
    let record = in_flight(&request(Backend::Idempotent, 1), 1).doubted(DoubtReason::RESET, START);
    let expected = Claim::Unknown(Doubted { reason: DoubtReason::RESET, since: START });
    let decision = decide(Some(&record), &request(Backend::Idempotent, 1), START.after(LEASE * 3));
    assert_eq!(decision, Decision::Answer(expected));
}

#[test]
fn a_takeover_keeps_what_belongs_to_the_first_request() {
    let first = request(Backend::Idempotent, 1);
    let record = in_flight(&first, 1);
    let taker = ClaimRequest { spelling: KeySpelling::Bare, ..request(Backend::Transactional, 1) };
    let now = START.after(LEASE);
    let taken = Record::acquired(&taker, Some(&record), Fence::new(8), (2, LEASE), now);
    assert_eq!((taken.spelling, taken.created_at, taken.backend), (KeySpelling::Quoted, START, Backend::Idempotent));
    assert_eq!((taken.fence, taken.owner, taken.attempt), (Fence::new(8), taker.owner, 2));
    let reborn = Record::acquired(&taker, Some(&record), Fence::new(9), (1, LEASE), record.expires_at);
    assert_eq!((reborn.spelling, reborn.created_at), (KeySpelling::Bare, record.expires_at));
}
