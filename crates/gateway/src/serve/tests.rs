//! The background duties on a store whose clock the test moves.

use std::{sync::Arc, time::Duration};

use oncegate_core::{
    Backend, ClaimRequest, Filter, Fingerprint, IdempotencyKey, KeySpelling, ManualClock, MemoryStore, Operation,
    Owner, Policy, RecordId, Scope, Store,
};
use oncegate_tower::{Route, Routes};

use super::{census::Census, health::Health, reaper::Reaper};
use crate::metrics::Metrics;

struct Duties {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Duties {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock)));
        let metrics = Arc::new(Metrics::new(&Routes::all(Route::gateway("defaults", Backend::Plain))));
        Self { clock, store, metrics, health: Arc::default() }
    }

    async fn claim(&self, key: &str, backend: Backend) {
        let request = ClaimRequest {
            id: RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).unwrap()),
            fingerprint: Fingerprint::from_bytes(&[1]).unwrap(),
            owner: Some(Owner::random()),
            operation: Operation::new("POST", "/payments"),
            spelling: KeySpelling::Bare,
            policy: Arc::new(Policy::gateway(backend)),
        };
        self.store.claim(&request).await.unwrap();
    }

    async fn reap(&self) -> usize {
        Reaper { store: Arc::clone(&self.store), metrics: Arc::clone(&self.metrics) }.run_once().await
    }

    async fn count(&self) -> Option<u64> {
        let census = Census {
            store: Arc::clone(&self.store),
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            timeout: Duration::from_secs(10),
        };
        census.run_once().await
    }

    async fn last_fence(&self) -> i64 {
        let records = self.store.list(&Filter::default()).await.unwrap();
        records.iter().map(|record| record.fence.get()).max().unwrap()
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics.encode(0).lines().any(|each| each == line)
    }
}

#[tokio::test]
async fn an_abandoned_record_is_reported_without_a_repeat() {
    let duties = Duties::new();
    duties.claim("plain", Backend::Plain).await;
    duties.claim("idempotent", Backend::Idempotent).await;
    assert_eq!(duties.count().await, Some(2));
    assert!(duties.counts("oncegate_in_flight_records 2"));

    duties.clock.advance(Duration::from_secs(31));
    assert_eq!(duties.reap().await, 1, "the idempotent one waits for a takeover");
    assert_eq!(duties.count().await, Some(2));
    assert!(duties.counts("oncegate_unknown_records 1") && duties.counts("oncegate_abandoned_records 1"));
    assert!(duties.counts("oncegate_reaped_records_total{what=\"abandoned\"} 1"));

    duties.clock.advance(Duration::from_hours(25));
    assert_eq!((duties.reap().await, duties.count().await), (2, Some(0)));
}

#[tokio::test]
async fn a_store_that_answers_makes_ready() {
    let duties = Duties::new();
    assert!(duties.health.ready(std::time::Instant::now()).is_err());
    duties.count().await;
    assert_eq!(duties.health.ready(std::time::Instant::now()), Ok(()));
    assert!(duties.counts("oncegate_store_up 1"));
}

#[tokio::test]
async fn after_a_failed_write_only_a_write_is_proof_and_it_leaves_nothing_behind() {
    let duties = Duties::new();
    duties.claim("k", Backend::Plain).await;
    let first = duties.last_fence().await;
    duties.count().await;
    duties.claim("second", Backend::Plain).await;
    let drawn = duties.last_fence().await;
    assert_eq!(drawn, first + 1, "while all is well, trying draws no fence");

    duties.health.doubt_writes();
    assert_eq!(duties.count().await, Some(2));
    assert!(!duties.health.doubts_writes());
    assert_eq!(duties.store.list(&Filter::default()).await.unwrap().len(), 2);
    duties.claim("third", Backend::Plain).await;
    assert!(duties.last_fence().await > drawn + 1, "the try was a claim");
}
