//! The contract, on one server and on a Cluster.

use std::{env, sync::Arc, time::Duration};

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

/// How many histories are played at once, each on a database of its own.
const SIDE_BY_SIDE: usize = 8;

/// A Cluster has one database, so its histories are played one after the other; fewer do, for the scripts are the same.
const HISTORIES_ON_A_CLUSTER: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_keeps_every_sentence_of_the_protocol() {
    let place = Place::start(&[]).await;
    conformance::run(async || place.emptied().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained() {
    let place = Place::start(&[]).await;
    conformance::histories_side_by_side(place.divided(SIDE_BY_SIDE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_keeps_every_sentence_of_the_protocol() {
    let place = Place::start_cluster().await;
    conformance::run(async || place.emptied().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_on_a_cluster_are_explained() {
    let place = Place::start_cluster().await;
    let count = env::var("ONCEGATE_HISTORIES").map_or(HISTORIES_ON_A_CLUSTER, |count| count.parse().unwrap());
    // Other ones than on a single server.
    let seed = env::var("ONCEGATE_SEED").map_or(1_000_000, |seed| seed.parse().unwrap());
    let tally = conformance::search(count, seed, place).await.unwrap_or_else(|found| panic!("{found}"));
    eprintln!("{count} histories from seed {seed} on, on a Cluster, are explained\n{tally}");
}
