//! Notes that one request was executed under two keys: what the layer has seen, and what the store finds among records of
//! all gates.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use oncegate_core::{Store, Suspicion};
use oncegate_tower::{Event, Handle, Observer as _};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

// === types ===

/// What the layer has seen and nobody has noted yet.
#[derive(Debug, Default)]
pub(super) struct Suspicions(Mutex<Vec<Suspicion>>);

/// A background duty.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: Arc<Metrics>,
    /// Knows the routes.
    pub(super) guard: Handle,
    pub(super) suspicions: Arc<Suspicions>,
    /// How far apart two keys are suspected.
    pub(super) window: Duration,
}

// === impl Suspicions ===

impl Suspicions {
    /// More are dropped: the store finds them.
    const FOUND_MAX: usize = 1024;

    /// The layer has seen one. Called on the request path, and rarely.
    pub(super) fn add(&self, suspicion: &Suspicion) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < Self::FOUND_MAX {
            found.push(suspicion.clone());
        }
    }

    fn take(&self) -> Vec<Suspicion> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Suspect ===

impl Suspect {
    /// How soon what the layer has seen is counted.
    const INTERVAL: Duration = Duration::from_secs(3);
    /// How many intervals apart the store is asked to look, if nothing was seen here.
    const LOOKS_EVERY: u32 = 20;

    /// Notes again and again until `stop`; never, if nothing is suspected.
    pub(super) async fn run(self, stop: CancellationToken) {
        if self.window.is_zero() {
            return;
        }
        let mut rounds: u32 = 0;
        while stop.run_until_cancelled(tokio::time::sleep(Self::INTERVAL)).await.is_some() {
            let found = self.suspicions.take();
            let looks = rounds.is_multiple_of(Self::LOOKS_EVERY);
            rounds = rounds.wrapping_add(1);
            if looks || !found.is_empty() {
                stop.run_until_cancelled(self.run_once(found)).await;
            }
        }
    }

    /// Notes these and whatever the store finds, and says how many were new.
    pub(super) async fn run_once(&self, found: Vec<Suspicion>) -> usize {
        match self.store.suspect(found.clone(), self.window).await {
            Ok(noted) => {
                self.report(&noted);
                noted.len()
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "suspected duplicates could not be noted");
                self.metrics.observe(&Event::StoreFailed { verb: "suspect", kind: error.kind() });
                found.iter().for_each(|suspicion| self.suspicions.add(suspicion));
                0
            }
        }
    }

    fn report(&self, noted: &[Suspicion]) {
        for suspicion in noted {
            self.metrics.suspected(&self.guard.route_name(&suspicion.operation), suspicion);
        }
        let Some(first) = noted.first() else { return };
        let (record, earlier, route) =
            (first.record.short(), first.earlier.short(), self.guard.route_name(&first.operation));
        // One line, however many a client makes.
        tracing::warn!(
            record,
            earlier,
            %route,
            noted = noted.len(),
            "one request was executed under two keys: does the client make a new key for each repeat?"
        );
    }
}
