//! The conformance suite on `MemoryStore`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{Clock, ManualClock, MemoryStore, Store, SystemClock, Timestamp, conformance};

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
