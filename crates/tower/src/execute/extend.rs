//! extend: the lease goes on while the inner service runs.

use std::{future::pending, time::Duration};

use oncegate_core::{Backend, Written};
use tokio::time::{Instant, sleep, timeout};

use super::Execution;
use crate::Event;

impl Execution {
    /// After a failed extension the next one comes this soon at the latest.
    const PAUSE_AFTER_FAILURE_MAX: Duration = Duration::from_secs(1);

    /// Extends the lease at each third of its length, and returns when somebody else has the record:
    /// then the work must stop and its result must not be answered as ours. A store that cannot be
    /// asked refuses nothing.
    ///
    /// A transactional backend holds the record's row in its own transaction, which an extension
    /// would run into: its lease is as long as its answer may take instead.
    pub(super) async fn extend_until_refused(&self) {
        let length = self.lease.length;
        if self.guarded.route.policy.backend == Backend::Transactional {
            return pending().await;
        }
        let mut pause = length / 3;
        loop {
            sleep(pause).await;
            pause = (length / 10).min(Self::PAUSE_AFTER_FAILURE_MAX);
            let asked = Instant::now();
            match timeout(self.gate.store_timeout, self.gate.store.extend(&self.lease, length)).await {
                Ok(Ok(Written::Done)) => {
                    self.turn.extended(asked, length);
                    pause = length / 3;
                }
                Ok(Ok(Written::Stale)) => match self.is_superseded().await {
                    Some(true) => return self.gate.observe(&Event::Stale { verb: "extend", fence: self.lease.fence }),
                    // Ours, but unknown (found by the reaper while we were slow) or completed by now:
                    // there is nothing to extend, and the outcome is still ours to report.
                    Some(false) => return pending().await,
                    None => {}
                },
                Ok(Err(error)) => drop(self.gate.store_failed("extend", self.lease.record, &error)),
                Err(_) => drop(self.gate.store_failed("extend", self.lease.record, &self.gate.too_slow())),
            }
        }
    }

    /// Whether the record is gone or somebody else's; `None` if the store cannot be asked.
    async fn is_superseded(&self) -> Option<bool> {
        match timeout(self.gate.store_timeout, self.gate.store.get(self.lease.record)).await {
            Ok(Ok(Some((record, _)))) => Some(record.fence != self.lease.fence),
            Ok(Ok(None)) => Some(true),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}
