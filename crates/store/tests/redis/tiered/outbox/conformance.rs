//! The contract, also while the front is emptied again and again and the outbox is closed and opened.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, ErrorKind, Filter, Lease, Note, Owner, Reaped, Record,
    RecordDigest, Seen, Store, StoreError, StoredResponse, Timestamp, Written, conformance,
};
use oncegate_store::tiered::{Options, TieredStore};

use super::{
    super::place::{PATIENCE, Place},
    steady, thorough,
};

// === types ===

/// A place with an outbox, and the stores that were opened there.
#[derive(Clone)]
struct Stage {
    place: Place,
    options: Options,
    /// The front is emptied now and then.
    is_emptied: bool,
    opened: Arc<Mutex<Vec<Arc<TieredStore>>>>,
}

/// A store as its callers have it who wait for what they are promised: new keys are claimed again while the outbox is
/// closed, and what is locked because it is being drained is asked for again; what is counted or listed was drained before,
/// and so was what one handle is asked of that only another one still knows once the front was emptied. A gateway's clients
/// are told to, by `Retry-After`.
#[derive(Debug)]
struct Waiting {
    store: Arc<TieredStore>,
    is_emptied: bool,
    opened: Arc<Mutex<Vec<Arc<TieredStore>>>>,
}

// === impl Stage ===

impl Stage {
    fn new(place: Place, options: Options, is_emptied: bool) -> Self {
        Self { place: place.with_outbox(), options, is_emptied, opened: Arc::default() }
    }

    /// The same without records, once nobody drains any.
    async fn emptied(&self) -> Self {
        self.drained().await;
        self.opened.lock().unwrap().clear();
        Self { place: self.place.emptied().await, ..self.clone() }
    }

    async fn drained(&self) {
        let opened = self.opened.lock().unwrap().clone();
        join_all(opened.iter().map(|store| store.drained())).await;
    }
}

#[async_trait]
impl conformance::Harness for Stage {
    async fn open(&self) -> Arc<dyn Store> {
        let store = Arc::new(self.place.open_with(self.options.clone()).await);
        self.opened.lock().unwrap().push(Arc::clone(&store));
        Arc::new(Waiting { store, is_emptied: self.is_emptied, opened: Arc::clone(&self.opened) })
    }

    /// Nothing is in an outbox for as long as a clock is moved on here.
    async fn advance(&self, by: Duration) {
        self.drained().await;
        self.place.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.place.now()
    }

    /// The servers' clocks go on.
    fn drift(&self) -> Duration {
        conformance::DRIFT_MAX
    }
}

// === impl Waiting ===

impl Waiting {
    /// Asks again while it is told to.
    async fn patiently<'a, T>(
        &'a self,
        ask: impl Fn() -> BoxFuture<'a, Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match ask().await {
                Err(error) if error.kind() == ErrorKind::Unavailable && Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                asked => return asked,
            }
        }
    }

    async fn drained(&self) {
        let opened = self.opened.lock().unwrap().clone();
        join_all(opened.iter().map(|store| store.drained())).await;
    }

    async fn written_down(&self) {
        if self.is_emptied {
            self.drained().await;
        }
    }
}

#[async_trait]
impl Store for Waiting {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match self.patiently(|| self.store.claim(request)).await? {
            // Of what was completed and is not drained a front that was emptied says that it is in flight.
            Claim::InFlight { .. } => {
                self.drained().await;
                self.patiently(|| self.store.claim(request)).await
            }
            claim => Ok(claim),
        }
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.extend(lease, length)).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        self.patiently(|| self.store.complete(lease, response)).await
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.doubt(lease, reason)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.release(lease)).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.withdraw(record, owner)).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.get(record)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.drained().await;
        self.store.list(filter).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.resolve(seen, response, note)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.written_down().await;
        self.patiently(|| self.store.purge(seen, note)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.store.audit(rows).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        self.drained().await;
        self.store.reap(rows).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.drained().await;
        self.store.census().await
    }
}

// === tests ===

/// How many histories are played at once.
const SIDE_BY_SIDE: usize = 16;

/// Until the first loss of all that the front holds, and between two: long enough for an outbox to be opened again.
const FLUSH_FIRST: Duration = Duration::from_secs(2);
const FLUSH_PAUSE: Duration = Duration::from_secs(12);

/// Of so many sentences one is tried on every change, since the same servers without an outbox are tried with all of them.
/// `ONCEGATE_EVERY=1` tries each.
const EVERY: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_outbox_keeps_every_sentence_of_the_protocol() {
    let every = std::env::var("ONCEGATE_EVERY").map_or(EVERY, |every| every.parse().unwrap());
    let filter = std::env::var("ONCEGATE_CASE").unwrap_or_default();
    let named: Vec<_> = conformance::names().filter(|name| name.contains(&filter)).collect();
    // One that is asked for by its name is played.
    let every = if filter.is_empty() { every } else { 1 };
    let stage = Stage::new(Place::start().await, steady(), false);
    let mut failures = Vec::new();
    for name in named.iter().step_by(every) {
        failures.extend(conformance::failures(name, async || stage.emptied().await).await);
    }
    eprintln!("every {every}th of {} cases was played", named.len());
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained_while_the_front_is_emptied_and_the_outbox_is_closed() {
    let place = Place::start().await;
    let places = place.divided(SIDE_BY_SIDE).await;
    let flushing = tokio::spawn(async move {
        let mut pause = FLUSH_FIRST;
        loop {
            tokio::time::sleep(pause).await;
            place.flush().await;
            pause = FLUSH_PAUSE;
        }
    });
    let stages = places.into_iter().map(|place| Stage::new(place, thorough(), true));
    conformance::histories_side_by_side(stages).await;
    assert!(!flushing.is_finished(), "it was emptied to the end");
    flushing.abort();
}
