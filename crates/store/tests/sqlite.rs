//! The store on SQLite, held to the contract by the conformance suite.
#![cfg(feature = "sqlite")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{Clock, ManualClock, Store, Timestamp, conformance};
use oncegate_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

/// One file, and a clock that stands still. Every handle is what another process would have.
struct File {
    clock: Arc<ManualClock>,
    directory: TempDir,
}

impl File {
    fn fresh() -> Self {
        Self { clock: Arc::default(), directory: tempfile::tempdir().expect("temporary directories can be made") }
    }
}

#[async_trait]
impl conformance::Harness for File {
    async fn open(&self) -> Arc<dyn Store> {
        let path = self.directory.path().join("records.db");
        let store = SqliteStore::open(path, Options::with_clock(self.clock.clone()));
        Arc::new(store.expect("the file is ours, or new"))
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
    conformance::run(async || File::fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_are_explained() {
    conformance::histories(File::fresh()).await;
}
