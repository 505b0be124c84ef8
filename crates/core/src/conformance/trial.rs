//! One case's store and clock, and the words that cases are written in.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use tokio::sync::Barrier;

use super::{DRIFT_MAX, Harness};
use crate::{
    AuditEntry, Backend, Census, Claim, ClaimRequest, Completed, DoubtReason, Fence, Filter, Fingerprint,
    IdempotencyKey, KeySpelling, Lease, Note, Operation, Owner, Policy, Reaped, Record, RecordDigest, RecordId, Scope,
    Seen, StateName, Store, StoreError, StoredResponse, Timestamp, Written,
};

// === types ===

/// A handle on one case's store. Verbs panic on a [`StoreError`]: no case provokes one.
#[derive(Clone)]
pub(super) struct Trial {
    harness: Arc<dyn Harness>,
    store: Arc<dyn Store>,
}

/// The lease of [`request`]'s policies.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// The retention of [`request`]'s policies.
pub(super) const RETENTION: Duration = Duration::from_hours(24);
/// A while after which no lease of [`LEASE`] has ended; more than twice [`DRIFT_MAX`].
pub(super) const MOMENT: Duration = Duration::from_secs(10);

// === requests and responses ===

/// A first request with a key, before a plain backend, with a fresh owner.
pub(super) fn request(key: &str) -> ClaimRequest {
    request_in("", key)
}

/// The same in a scope.
pub(super) fn request_in(scope: &str, key: &str) -> ClaimRequest {
    let scope = Scope::from_text(scope).expect("scopes of cases are short and without NUL");
    let key = IdempotencyKey::new(key).expect("keys of cases are visible ASCII and short enough");
    ClaimRequest {
        id: RecordId::new(scope, key),
        fingerprint: fingerprint(&[1]),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/payments"),
        spelling: KeySpelling::Bare,
        policy: policy(Backend::Plain),
    }
}

/// A first request with a key, before an idempotent backend: a repeat may take over.
pub(super) fn idempotent(key: &str) -> ClaimRequest {
    ClaimRequest { policy: policy(Backend::Idempotent), ..request(key) }
}

/// The same request sent by somebody else, or once more: same fingerprint, fresh owner.
pub(super) fn repeat(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { owner: Some(Owner::random()), ..request.clone() }
}

/// Another request with the same key.
pub(super) fn other_body(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { fingerprint: fingerprint(&[2]), ..repeat(request) }
}

/// The same request under other terms.
pub(super) fn under(request: &ClaimRequest, change: impl FnOnce(&mut Policy)) -> ClaimRequest {
    let mut policy = Policy::clone(&request.policy);
    change(&mut policy);
    ClaimRequest { policy: Arc::new(policy), ..request.clone() }
}

pub(super) fn policy(backend: Backend) -> Arc<Policy> {
    Arc::new(Policy { lease: LEASE, retention: RETENTION, max_attempts: 5, ..Policy::gateway(backend) })
}

pub(super) fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(bytes).expect("fingerprints of cases have 1 to 64 bytes")
}

/// A small answer with this status.
pub(super) fn response(status: u16) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))];
    StoredResponse { status, headers, body: Some(Bytes::from(format!("{{\"status\":{status}}}"))) }
}

/// What operators of cases say.
pub(super) fn note(force: bool) -> Note {
    let note = Note::new("ada", "the cases say so").expect("both are short text");
    note.with_force(force)
}

/// The lease as a backend knows it that was told record and fence only.
pub(super) fn without_owner(lease: &Lease) -> Lease {
    Lease { owner: None, ..lease.clone() }
}

/// The lease in the hands of somebody who guessed record and fence.
pub(super) fn of_a_stranger(lease: &Lease) -> Lease {
    Lease { owner: Some(Owner::random()), ..lease.clone() }
}

/// Every state.
pub(super) const STATES: [StateName; 3] = [StateName::InFlight, StateName::Completed, StateName::Unknown];

/// A claim's outcome in one word.
pub(super) fn word(claim: &Claim) -> &'static str {
    match claim {
        Claim::Acquired(_) => "acquired",
        Claim::Completed(_) => "completed",
        Claim::InFlight { .. } => "in_flight",
        Claim::Mismatch(_) => "mismatch",
        Claim::Unknown(_) => "unknown",
        Claim::RulesChanged { .. } => "rules_changed",
    }
}

/// How many claims had this outcome.
pub(super) fn count(claims: &[Claim], outcome: &str) -> usize {
    claims.iter().filter(|claim| word(claim) == outcome).count()
}

// === concurrency and cancellation ===

/// Runs all of them at once, each as a task of its own, and answers in the same order.
pub(super) async fn at_once<F>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let futures: Vec<_> = futures.into_iter().collect();
    let start = Arc::new(Barrier::new(futures.len()));
    let spawn = |future| {
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            future.await
        })
    };
    let tasks: Vec<_> = futures.into_iter().map(spawn).collect();
    let mut outputs = Vec::with_capacity(tasks.len());
    for task in tasks {
        outputs.push(task.await.unwrap_or_else(|error| panic!("a concurrent caller failed: {error}")));
    }
    outputs
}

/// Drops a verb's future after so many polls; the output, if it was ready by then.
pub(super) async fn cut<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

// === impl Trial: handles and time ===

impl Trial {
    pub(super) async fn open(harness: Arc<dyn Harness>) -> Self {
        assert!(harness.drift() <= DRIFT_MAX, "a drift of {:?} is too much: at most {DRIFT_MAX:?}", harness.drift());
        let store = harness.open().await;
        Self { harness, store }
    }

    /// Another handle on the same data, as another process would have it.
    pub(super) async fn another(&self) -> Self {
        Self::open(Arc::clone(&self.harness)).await
    }

    /// Closes the last handle and opens the data again; `None` where nothing outlives that.
    pub(super) async fn reopened(self) -> Option<Self> {
        let Self { harness, store } = self;
        drop(store);
        if !harness.survives_closing() {
            return None;
        }
        Some(Self::open(harness).await)
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    pub(super) async fn now(&self) -> Timestamp {
        self.harness.now().await
    }

    /// Whether the clock stands still, so that exact instants can be tried.
    pub(super) fn stands_still(&self) -> bool {
        self.harness.drift() == Duration::ZERO
    }

    /// Whether two moments are the same, as far as this clock can tell.
    pub(super) fn same_time(&self, one: Timestamp, other: Timestamp) -> bool {
        one.since(other).max(other.since(one)) <= self.harness.drift()
    }

    /// Whether two lengths of time are the same, as far as this clock can tell.
    pub(super) fn same_length(&self, one: Duration, other: Duration) -> bool {
        one.abs_diff(other) <= self.harness.drift()
    }
}

// === impl Trial: verbs ===

impl Trial {
    pub(super) async fn claim(&self, request: &ClaimRequest) -> Claim {
        done("claim", self.store.claim(request).await)
    }

    /// The claim's outcome in one word.
    pub(super) async fn outcome(&self, request: &ClaimRequest) -> &'static str {
        word(&self.claim(request).await)
    }

    /// A claim that must be acquired.
    pub(super) async fn acquire(&self, request: &ClaimRequest) -> Lease {
        match self.claim(request).await {
            Claim::Acquired(lease) => lease,
            other => panic!("the claim must be acquired, but: {other:?}"),
        }
    }

    /// A claim that must be replayed.
    pub(super) async fn replay(&self, request: &ClaimRequest) -> Completed {
        match self.claim(request).await {
            Claim::Completed(completed) => completed,
            other => panic!("the claim must be replayed, but: {other:?}"),
        }
    }

    pub(super) async fn extend(&self, lease: &Lease, length: Duration) -> Written {
        done("extend", self.store.extend(lease, length).await)
    }

    pub(super) async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Written {
        done("complete", self.store.complete(lease, response).await)
    }

    pub(super) async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Written {
        done("doubt", self.store.doubt(lease, reason).await)
    }

    pub(super) async fn release(&self, lease: &Lease) -> Written {
        done("release", self.store.release(lease).await)
    }

    pub(super) async fn withdraw(&self, request: &ClaimRequest) -> Written {
        let owner = request.owner.expect("only claims with an owner are withdrawn");
        done("withdraw", self.store.withdraw(request.id.digest(), owner).await)
    }

    pub(super) async fn resolve(&self, seen: Seen, response: &StoredResponse, force: bool) -> Written {
        done("resolve", self.store.resolve(seen, response, &note(force)).await)
    }

    pub(super) async fn purge(&self, record: RecordDigest, fence: Fence, state: StateName, force: bool) -> Written {
        done("purge", self.store.purge(Seen { record, fence, state }, &note(force)).await)
    }

    pub(super) async fn audit(&self, rows: usize) -> Vec<AuditEntry> {
        done("audit", self.store.audit(rows).await)
    }

    pub(super) async fn get(&self, record: RecordDigest) -> Option<(Record, Option<StoredResponse>)> {
        done("get", self.store.get(record).await)
    }

    /// The record of a request, which must be there.
    pub(super) async fn record(&self, request: &ClaimRequest) -> Record {
        let found = self.get(request.id.digest()).await;
        found.unwrap_or_else(|| panic!("the record {} must be there", request.id.digest())).0
    }

    pub(super) async fn is_absent(&self, request: &ClaimRequest) -> bool {
        self.get(request.id.digest()).await.is_none()
    }

    pub(super) async fn list(&self, filter: &Filter) -> Vec<Record> {
        done("list", self.store.list(filter).await)
    }

    pub(super) async fn reap(&self, rows: usize) -> Reaped {
        done("reap", self.store.reap(rows).await)
    }

    pub(super) async fn census(&self) -> Census {
        done("census", self.store.census().await)
    }

    /// Claims, and brings the record to `state`.
    pub(super) async fn acquire_and_bring_to(&self, state: StateName, request: &ClaimRequest) -> Lease {
        let lease = self.acquire(request).await;
        let written = match state {
            StateName::InFlight => Written::Done,
            StateName::Completed => self.complete(&lease, &response(201)).await,
            StateName::Unknown => self.doubt(&lease, &DoubtReason::RESET).await,
        };
        assert_eq!(written, Written::Done, "a fresh lease can be brought to {state:?}");
        lease
    }

    /// What a takeover under `lease` of an [`idempotent`] record leaves when it was given back.
    pub(super) async fn assert_abandoned_again(&self, lease: &Lease) {
        let (record, _) = self.get(lease.record).await.expect("an earlier attempt may have had an effect");
        let now = self.now().await;
        assert!(record.is_abandoned(now) && record.fence > lease.fence, "{record:?}");
        assert_eq!((record.attempt, record.lease, record.owner), (lease.attempt - 1, LEASE, None));
        assert_eq!((record.spelling, record.created_at), (lease.spelling, lease.created_at));
        assert!(self.same_time(record.expires_at, now.after(RETENTION)), "{record:?}");
    }

    /// All these claims at once, on two handles in turn.
    pub(super) async fn claims_at_once(&self, requests: Vec<ClaimRequest>) -> Vec<Claim> {
        let handles = [self.clone(), self.another().await];
        let claim = |(index, request): (usize, ClaimRequest)| {
            let trial = handles[index % handles.len()].clone();
            async move { trial.claim(&request).await }
        };
        at_once(requests.into_iter().enumerate().map(claim)).await
    }
}

fn done<T>(verb: &str, result: Result<T, StoreError>) -> T {
    result.unwrap_or_else(|error| panic!("{verb} failed: {error} ({:?})", error.kind()))
}
