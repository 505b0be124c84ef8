//! Counts the records, for the metrics, and thereby finds out whether the store answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{ErrorKind, Store, StoreError};
use oncegate_tower::{Event, Observer as _};
use tokio_util::sync::CancellationToken;

use super::health::Health;
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
    /// Alerts on abandoned and unknown records need no more, and `/readyz` notices a dead store within seconds.
    const INTERVAL: Duration = Duration::from_secs(5);

    /// Counts again and again until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(Self::INTERVAL)).await.is_some() {
            self.run_once().await;
        }
    }

    /// Counts once and says how many records there are; `None` if the store did not say.
    pub(super) async fn run_once(&self) -> Option<u64> {
        let counted = tokio::time::timeout(self.timeout, self.store.census()).await;
        let late = || StoreError::new(ErrorKind::Unavailable, format!("no census within {:?}", self.timeout));
        match counted.unwrap_or_else(|_| Err(late())) {
            Ok(census) => {
                self.metrics.counted(&census);
                self.health.store_answered(Instant::now());
                Some(census.in_flight + census.abandoned + census.completed + census.unknown)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be asked");
                self.metrics.not_counted();
                self.metrics.observe(&Event::StoreFailed { verb: "census", kind: error.kind() });
                None
            }
        }
    }
}
