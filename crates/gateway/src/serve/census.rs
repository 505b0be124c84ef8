//! Counts the records, for the metrics, and finds out whether the store can be read and written.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{Census as Counted, ErrorKind, Store, StoreError};
use oncegate_tower::{Event, Observer as _};
use tokio_util::sync::CancellationToken;

use super::{health::Health, probe};
use crate::metrics::Metrics;

/// A background duty.
#[derive(Debug)]
pub(super) struct Census {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    /// How long the store may take.
    pub(super) timeout: Duration,
}

impl Census {
    /// Together with the counting itself at most 5 s: so far behind may what is said of abandoned and unknown records be,
    /// and `/readyz` notices a dead store within seconds.
    const INTERVAL: Duration = Duration::from_secs(4);

    /// Counts again and again until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(Self::INTERVAL)).await.is_some() {
            self.run_once().await;
        }
    }

    /// Counts and writes once, and says how many records there are; `None` if the store did not say.
    pub(super) async fn run_once(&self) -> Option<u64> {
        let counted = self.counted().await;
        let is_written = self.is_written().await;
        self.metrics.store_tried(counted.is_some() && is_written);
        counted.map(|census| census.in_flight + census.abandoned + census.completed + census.unknown)
    }

    async fn counted(&self) -> Option<Counted> {
        match self.within("census", self.store.census()).await {
            Ok(census) => {
                self.metrics.counted(&census);
                self.health.store_answered(Instant::now());
                Some(census)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be asked");
                self.metrics.observe(&Event::StoreFailed { verb: "census", kind: error.kind() });
                None
            }
        }
    }

    /// A store that only answers questions, such as a file that another process has locked or whose disk is full,
    /// refuses every request with a key. While all is well, trying writes nothing; once a write has failed, only
    /// one that succeeds is proof.
    async fn is_written(&self) -> bool {
        let tried = match self.health.doubts_writes() {
            false => self.within("withdraw", probe::lock(&*self.store)).await,
            true => self.within("claim", probe::write(&*self.store)).await,
        };
        match tried {
            Ok(()) => self.health.store_written(Instant::now()),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be written");
                self.metrics.observe(&Event::StoreFailed { verb: "claim", kind: error.kind() });
                self.health.doubt_writes();
                return false;
            }
        }
        true
    }

    async fn within<T>(&self, verb: &str, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::new(ErrorKind::Unavailable, format!("no {verb} within {:?}", self.timeout));
        tokio::time::timeout(self.timeout, asked).await.unwrap_or_else(|_| Err(late()))
    }
}
