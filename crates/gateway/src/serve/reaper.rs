//! Deletes expired records, and gives up abandoned ones that nobody may take over.

use std::{sync::Arc, time::Duration};

use oncegate_core::Store;
use oncegate_tower::{Event, Observer as _};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// A background duty.
#[derive(Debug)]
pub(super) struct Reaper {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: Arc<Metrics>,
}

impl Reaper {
    /// Rows per pass: some milliseconds, during which no claim is answered.
    const ROWS: usize = 1000;
    /// How soon an abandoned record before a plain backend is reported although nobody repeats its request.
    const INTERVAL: Duration = Duration::from_secs(3);
    /// Between passes while there is more: claims come first.
    const PAUSE: Duration = Duration::from_millis(50);

    /// Reaps again and again until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut pause = jittered(Self::INTERVAL);
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let Some(reaped) = stop.run_until_cancelled(self.run_once()).await else { return };
            pause = if reaped < Self::ROWS { jittered(Self::INTERVAL) } else { Self::PAUSE };
        }
    }

    /// Does one pass and says how many records of one kind it reaped at most; [`Self::ROWS`] means that there is more.
    pub(super) async fn run_once(&self) -> usize {
        match self.store.reap(Self::ROWS).await {
            Ok(reaped) => {
                self.metrics.reaped(reaped);
                if reaped.doubted > 0 {
                    tracing::warn!(records = reaped.doubted, "abandoned records became unknown");
                }
                reaped.expired.max(reaped.doubted)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "reaping failed");
                self.metrics.observe(&Event::StoreFailed { verb: "reap", kind: error.kind() });
                0
            }
        }
    }
}

/// Between 3/4 and 5/4 of a pause, so that gates that were started together do not reap together.
fn jittered(pause: Duration) -> Duration {
    let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    pause * 3 / 4 + pause * random / (2 * 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_vary_within_a_quarter() {
        let pause = Duration::from_secs(4);
        for _ in 0..100 {
            assert!((Duration::from_secs(3)..=Duration::from_secs(5)).contains(&jittered(pause)));
        }
    }
}
