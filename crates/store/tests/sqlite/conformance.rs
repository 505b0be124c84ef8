//! The contract.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{Clock, Store, Timestamp, conformance};

use crate::fixture::Place;

/// Every handle is what another process would have.
#[async_trait]
impl conformance::Harness for Place {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Self::open(self))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_keeps_every_sentence_of_the_protocol() {
    conformance::run(async || Place::fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained() {
    conformance::histories(Place::fresh()).await;
}
