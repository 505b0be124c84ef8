//! The contract, on PostgreSQL as it comes, and where its users have set another default.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{Store, Timestamp, conformance};

use crate::fixture::Place;

/// Every handle is what another process would have.
#[async_trait]
impl conformance::Harness for Place {
    async fn open(&self) -> Arc<dyn Store> {
        self.lend()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        Self::now(self).await
    }

    /// The server's clock goes on.
    fn drift(&self) -> Duration {
        conformance::DRIFT_MAX
    }
}

/// Nobody pulls the plug here, so the disk need not keep up.
const FAST: &str = "fsync=off";

/// How many histories are played at once: enough that every statement meets others.
pub(crate) const SIDE_BY_SIDE: usize = 32;

/// How many are played on other set-ups, where the same statements have already been through all of them.
pub(crate) const HISTORIES_ELSEWHERE: u64 = 32;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_keeps_every_sentence_of_the_protocol() {
    let place = Place::start(&[FAST]).await;
    conformance::run(async || place.emptied().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained() {
    let place = Place::start(&[FAST]).await;
    conformance::histories_side_by_side(place.divided(SIDE_BY_SIDE, place.port()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_servers_default_isolation_changes_nothing() {
    let place = Place::start(&[FAST, "default_transaction_isolation=serializable"]).await.lending();
    conformance::run(async || place.emptied().await).await;
    conformance::so_many_histories_side_by_side(HISTORIES_ELSEWHERE, place.divided(SIDE_BY_SIDE, place.port()).await)
        .await;
}
