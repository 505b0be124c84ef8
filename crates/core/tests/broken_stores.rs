//! The suite is tested too: stores that are broken on purpose must be flagged, by name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, Clock, DoubtReason, Fence, Filter, Lease, ManualClock, MemoryStore, Note,
    OnAbandoned, Owner, Policy, Reaped, Record, RecordDigest, Seen, StateName, Store, StoreError, StoredResponse,
    Timestamp, Written, conformance,
};

/// One mistake that a store has been seen to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    CheckThenAct,
    OwnClaimNotRecognised,
    MismatchAfterInFlight,
    TakeoverByTheTakersPolicyAlone,
    FencePerRow,
    ExtendWithoutFence,
    CompleteWithoutFence,
    CompleteRefusedWhenUnknown,
    LastResponseWins,
    EmptyBodyNotKept,
    ReleaseWithoutState,
    WithdrawWithoutOwner,
    DoubtNotWritten,
    PurgeAlwaysForced,
    ResolveWithoutState,
    AuditForgets,
    ReapUnbounded,
    ReplayAfterExpiry,
}

/// Each mistake, a sentence that it breaks, and whether random histories must find it as well.
const FAULTS: [(Fault, &str, bool); 18] = [
    (Fault::CheckThenAct, "exactly_one_of_many_concurrent_claims_acquires", true),
    (Fault::OwnClaimNotRecognised, "own_claim_is_recognised_after_a_lost_reply", true),
    (Fault::MismatchAfterInFlight, "mismatch_is_judged_before_in_flight", true),
    (Fault::TakeoverByTheTakersPolicyAlone, "takeover_needs_both_policies", true),
    (Fault::FencePerRow, "fence_is_never_reused_after_a_release", true),
    (Fault::ExtendWithoutFence, "extend_after_a_takeover_is_stale", true),
    (Fault::CompleteWithoutFence, "completion_after_a_takeover_is_stale", true),
    (Fault::CompleteRefusedWhenUnknown, "completion_of_an_unknown_record_is_accepted", true),
    (Fault::LastResponseWins, "repeated_completion_by_the_same_owner_is_done_and_changes_nothing", true),
    (Fault::EmptyBodyNotKept, "an_empty_body_is_not_a_body_that_was_not_kept", false),
    (Fault::ReleaseWithoutState, "release_does_not_delete_a_completed_record", true),
    (Fault::WithdrawWithoutOwner, "withdrawal_needs_the_owner", true),
    (Fault::DoubtNotWritten, "doubt_makes_the_record_unknown_at_once", true),
    (Fault::PurgeAlwaysForced, "purge_deletes_by_state_and_force", true),
    (Fault::ResolveWithoutState, "operators_verbs_by_state_and_force", true),
    (Fault::AuditForgets, "what_operators_did_is_audited_and_what_was_stale_is_not", false),
    (Fault::ReapUnbounded, "reap_is_bounded_in_both_duties", false),
    (Fault::ReplayAfterExpiry, "an_expired_record_is_absent_for_a_claim_in_every_state", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_fault_breaks_its_sentence() {
    for (fault, case, _) in FAULTS {
        let failures = conformance::failures(case, async || Harness::with(fault)).await;
        assert!(failures.iter().any(|failure| failure.case == case), "{fault:?} was not flagged by {case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_find_the_faults_of_the_protocol() {
    for (fault, ..) in FAULTS.into_iter().filter(|(.., by_histories)| *by_histories) {
        let found = conformance::search(2000, 0, Harness::with(fault)).await;
        let Err(counterexample) = found else { panic!("{fault:?} was not found in 2000 histories") };
        let report = counterexample.to_string();
        assert!(report.contains("no order of the calls explains"), "{report}");
        let again = format!("ONCEGATE_SEED={}", counterexample.seed);
        assert!(report.contains(&again), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_seed_that_failed_fails_again() {
    let fault = Fault::ReleaseWithoutState;
    let first = conformance::search(2000, 0, Harness::with(fault)).await.expect_err("the fault is found");
    let again = conformance::search(1, first.seed, Harness::with(fault)).await.expect_err("it is found again");
    assert_eq!(again.seed, first.seed);
}

// === the harness ===

struct Harness {
    clock: Arc<ManualClock>,
    store: Arc<Broken>,
}

impl Harness {
    fn with(fault: Fault) -> Self {
        let clock = Arc::new(ManualClock::default());
        let inner = MemoryStore::with_clock(Arc::clone(&clock));
        Self { clock, store: Arc::new(Broken { fault, inner, last: Mutex::default(), replayed: Mutex::default() }) }
    }
}

#[async_trait]
impl conformance::Harness for Harness {
    async fn open(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn survives_closing(&self) -> bool {
        false
    }
}

// === the broken store ===

/// A good store behind one mistake.
#[derive(Debug)]
struct Broken {
    fault: Fault,
    inner: MemoryStore,
    last: Mutex<HashMap<RecordDigest, StoredResponse>>,
    replayed: Mutex<HashMap<RecordDigest, Claim>>,
}

impl Broken {
    async fn present(&self, record: RecordDigest) -> Result<Option<Record>, StoreError> {
        Ok(self.inner.get(record).await?.map(|(record, _)| record))
    }

    /// The lease with the fence that the record has, whatever the caller's was.
    async fn with_present_fence(&self, lease: &Lease) -> Result<Lease, StoreError> {
        let fence = self.present(lease.record).await?.map_or(lease.fence, |record| record.fence);
        Ok(Lease { fence, ..lease.clone() })
    }

    /// The lease as the good store knows it.
    async fn incoming(&self, lease: &Lease) -> Result<Lease, StoreError> {
        if self.fault != Fault::FencePerRow {
            return Ok(lease.clone());
        }
        let present = self.present(lease.record).await?;
        let known = present.filter(|record| per_row(record.attempt) == lease.fence);
        Ok(Lease { fence: known.map_or(Fence::new(-1), |record| record.fence), ..lease.clone() })
    }

    /// What an operator saw, as the good store knows it.
    async fn known(&self, seen: Seen) -> Result<Seen, StoreError> {
        if self.fault != Fault::FencePerRow {
            return Ok(seen);
        }
        let present = self.present(seen.record).await?.filter(|record| per_row(record.attempt) == seen.fence);
        Ok(Seen { fence: present.map_or(Fence::new(-1), |record| record.fence), ..seen })
    }

    fn outgoing(&self, record: Record) -> Record {
        match self.fault {
            Fault::FencePerRow => Record { fence: per_row(record.attempt), ..record },
            _ => record,
        }
    }

    /// The claim as the good store gets it.
    async fn asked(&self, request: &ClaimRequest) -> Result<ClaimRequest, StoreError> {
        let mut request = request.clone();
        let present = self.present(request.id.digest()).await?;
        match (self.fault, present) {
            (Fault::CheckThenAct, None) => {
                tokio::task::yield_now().await;
                if let Some(raced) = self.present(request.id.digest()).await? {
                    let _ = self.inner.purge(Seen::of(&raced), &forced()).await?;
                }
            }
            (Fault::OwnClaimNotRecognised, Some(_)) => request.owner = Some(Owner::random()),
            (Fault::MismatchAfterInFlight, Some(record)) if record.state.name() == StateName::InFlight => {
                request.fingerprint = record.fingerprint;
            }
            (Fault::TakeoverByTheTakersPolicyAlone, Some(record)) => {
                let mut policy = Policy::clone(&request.policy);
                policy.on_abandoned = record.on_abandoned;
                request.policy = Arc::new(policy);
            }
            (_, _) => {}
        }
        Ok(request)
    }
}

fn forced() -> Note {
    Note::new("nobody", "a fault").expect("both are short text").with_force(true)
}

fn per_row(attempt: u32) -> Fence {
    Fence::new(i64::from(attempt))
}

#[async_trait]
impl Store for Broken {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let record = request.id.digest();
        if let (Fault::ReplayAfterExpiry, Some(claim)) = (self.fault, held(&self.replayed).get(&record)) {
            return Ok(claim.clone());
        }
        let mut claim = self.inner.claim(&self.asked(request).await?).await?;
        match (self.fault, &mut claim) {
            (Fault::FencePerRow, Claim::Acquired(lease)) => lease.fence = per_row(lease.attempt),
            (Fault::LastResponseWins, Claim::Completed(completed)) => {
                // Another call may have completed it, and not have come to say so here yet.
                if let Some(last) = held(&self.last).get(&record) {
                    completed.response = Arc::new(last.clone());
                }
            }
            (_, _) => {}
        }
        Ok(claim)
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        match self.fault {
            Fault::ExtendWithoutFence => self.inner.extend(&self.with_present_fence(lease).await?, length).await,
            _ => self.inner.extend(&self.incoming(lease).await?, length).await,
        }
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        let mut response = response.clone();
        let mut lease = self.incoming(lease).await?;
        let present = self.present(lease.record).await?;
        match self.fault {
            Fault::CompleteWithoutFence => lease = self.with_present_fence(&lease).await?,
            Fault::CompleteRefusedWhenUnknown if is(present.as_ref(), StateName::Unknown) => return Ok(Written::Stale),
            Fault::EmptyBodyNotKept => response.body = response.body.filter(|body| !body.is_empty()),
            _ => {}
        }
        let written = self.inner.complete(&lease, &response).await?;
        if written == Written::Done {
            held(&self.last).insert(lease.record, response);
        }
        let present = self.present(lease.record).await?.filter(|record| is(Some(record), StateName::Completed));
        if let (Fault::ReplayAfterExpiry, Some(record)) = (self.fault, present) {
            self.remember(record, lease.record).await?;
        }
        Ok(written)
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        match self.fault {
            Fault::DoubtNotWritten => Ok(Written::Done),
            _ => self.inner.doubt(&self.incoming(lease).await?, reason).await,
        }
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        let present = self.present(lease.record).await?.filter(|record| record.fence == lease.fence);
        match (self.fault, present) {
            (Fault::ReleaseWithoutState, Some(record)) => self.inner.purge(Seen::of(&record), &forced()).await,
            (_, _) => self.inner.release(&self.incoming(lease).await?).await,
        }
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        let present = self.present(record).await?.and_then(|record| record.owner);
        match (self.fault, present) {
            (Fault::WithdrawWithoutOwner, Some(present)) => self.inner.withdraw(record, present).await,
            (_, _) => self.inner.withdraw(record, owner).await,
        }
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        let found = self.inner.get(record).await?;
        Ok(found.map(|(record, response)| (self.outgoing(record), response)))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let listed = self.inner.list(filter).await?;
        Ok(listed.into_iter().map(|record| self.outgoing(record)).collect())
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        let mut seen = self.known(seen).await?;
        if let (Fault::ResolveWithoutState, Some(present)) = (self.fault, self.present(seen.record).await?) {
            seen.state = present.state.name();
            if seen.state == StateName::Completed && seen.fence == present.fence {
                return Ok(Written::Done);
            }
        }
        self.inner.resolve(seen, response, note).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        let force = note.force || self.fault == Fault::PurgeAlwaysForced;
        self.inner.purge(self.known(seen).await?, &note.clone().with_force(force)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        match self.fault {
            Fault::AuditForgets => Ok(Vec::new()),
            _ => self.inner.audit(rows).await,
        }
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        self.inner.reap(if self.fault == Fault::ReapUnbounded { usize::MAX } else { rows }).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.inner.census().await
    }
}

impl Broken {
    /// Keeps a replay for ever, as a cache without the record's end would.
    async fn remember(&self, record: Record, digest: RecordDigest) -> Result<(), StoreError> {
        let mut policy = Policy::gateway(record.backend);
        policy.on_abandoned = OnAbandoned::Unknown;
        let request = ClaimRequest {
            id: record.id,
            fingerprint: record.fingerprint,
            owner: None,
            operation: record.operation,
            spelling: record.spelling,
            policy: Arc::new(policy),
        };
        let claim = self.inner.claim(&request).await?;
        held(&self.replayed).insert(digest, claim);
        Ok(())
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

fn is(record: Option<&Record>, state: StateName) -> bool {
    record.is_some_and(|record| record.state.name() == state)
}
