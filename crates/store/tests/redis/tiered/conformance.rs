//! The contract, on two stores that share both servers; also while the front is emptied again and again.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{Store, Timestamp, conformance};

use super::place::Place;

/// Every handle is what another process would have.
#[async_trait]
impl conformance::Harness for Place {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Self::open(self).await)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        Self::now(self)
    }

    /// The servers' clocks go on.
    fn drift(&self) -> Duration {
        conformance::DRIFT_MAX
    }
}

/// How many histories are played at once.
const SIDE_BY_SIDE: usize = 16;

/// Between two losses of all that the front holds.
const FLUSH_PAUSE: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_tiers_keep_every_sentence_of_the_protocol() {
    let place = Place::start().await;
    conformance::run(async || place.emptied().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained_while_the_front_is_emptied() {
    let place = Place::start().await;
    let places = place.divided(SIDE_BY_SIDE).await;
    let flushing = tokio::spawn(async move {
        loop {
            place.flush().await;
            tokio::time::sleep(FLUSH_PAUSE).await;
        }
    });
    conformance::histories_side_by_side(places).await;
    assert!(!flushing.is_finished(), "it was emptied to the end");
    flushing.abort();
}
