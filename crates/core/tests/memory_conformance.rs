//! The conformance suite on `MemoryStore`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Clock, ErrorKind, Fingerprint, IdempotencyKey, KeySpelling, ManualClock, MemoryStore,
    Operation, Owner, Policy, RecordId, Scope, Store, StoreError, StoredResponse, SystemClock, Timestamp, Written,
    conformance,
};

/// One store under a clock that stands still.
#[derive(Debug)]
struct Memory<C> {
    clock: Arc<C>,
    store: Arc<MemoryStore>,
}

/// The wall clock, moved on: what a store with a server's clock looks like.
#[derive(Debug, Default)]
struct RunningClock(ManualClock);

impl<C: Clock + Default> Memory<C> {
    fn fresh() -> Self {
        let clock = Arc::new(C::default());
        Self { store: Arc::new(MemoryStore::with_clock(Arc::clone(&clock))), clock }
    }
}

#[async_trait]
impl conformance::Harness for Memory<ManualClock> {
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

#[async_trait]
impl conformance::Harness for Memory<RunningClock> {
    async fn open(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.0.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn drift(&self) -> Duration {
        conformance::DRIFT_MAX
    }

    fn survives_closing(&self) -> bool {
        false
    }
}

impl Clock for RunningClock {
    fn now(&self) -> Timestamp {
        let moved_on = self.0.now().since(ManualClock::default().now());
        SystemClock.now().after(moved_on)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_keeps_every_sentence_of_the_protocol() {
    conformance::run(async || Memory::<ManualClock>::fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained() {
    conformance::histories(Memory::<ManualClock>::fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_clock_that_runs_on_is_no_fault() {
    conformance::run(async || Memory::<RunningClock>::fresh()).await;
    conformance::histories(Memory::<RunningClock>::fresh()).await;
}

// === what only this store has: a limit ===

fn request(key: &str) -> ClaimRequest {
    let key = IdempotencyKey::new(key).expect("keys of tests are visible ASCII");
    ClaimRequest {
        id: RecordId::new(Scope::anonymous(), key),
        fingerprint: Fingerprint::from_bytes(&[1]).expect("one byte is enough"),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/payments"),
        spelling: KeySpelling::Bare,
        policy: Arc::new(Policy::gateway(Backend::Plain)),
    }
}

fn is_full(claim: &Result<Claim, StoreError>) -> bool {
    claim.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full)
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_and_throws_nothing_out() {
    let store = MemoryStore::with_clock(ManualClock::default()).with_records_max(2);
    let (first, second) = (request("first"), request("second"));
    let Claim::Acquired(lease) = store.claim(&first).await.unwrap() else { panic!("the store is empty") };
    assert!(matches!(store.claim(&second).await, Ok(Claim::Acquired(_))));
    for number in 0..200 {
        assert!(is_full(&store.claim(&request(&format!("k{number}"))).await));
    }
    let repeat = ClaimRequest { owner: Some(Owner::random()), ..first.clone() };
    assert!(matches!(store.claim(&repeat).await, Ok(Claim::InFlight { .. })));
    let response = StoredResponse { status: 201, headers: Vec::new(), body: None };
    assert_eq!(store.complete(&lease, &response).await.unwrap(), Written::Done);
    assert!(is_full(&store.claim(&request("third")).await), "a completed record is not thrown out either");
    assert!(matches!(store.claim(&repeat).await, Ok(Claim::Completed(_))));
}

#[tokio::test]
async fn a_full_store_makes_room_by_reaping_what_expired() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(Arc::clone(&clock)).with_records_max(2);
    assert!(matches!(store.claim(&request("first")).await, Ok(Claim::Acquired(_))));
    clock.advance(Policy::gateway(Backend::Plain).retention / 2);
    assert!(matches!(store.claim(&request("second")).await, Ok(Claim::Acquired(_))));
    clock.advance(Policy::gateway(Backend::Plain).retention / 2);
    assert!(matches!(store.claim(&request("third")).await, Ok(Claim::Acquired(_))), "the first one expired");
    assert!(is_full(&store.claim(&request("fourth")).await));
}
