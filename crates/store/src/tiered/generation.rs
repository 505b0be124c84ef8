//! Which entries of the front count. A purge that the front could not be told of, another timeline of PostgreSQL, and
//! another life of the front each make a new generation; what was confirmed under an older one is void.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use oncegate_core::StoreError;
use tokio::time::{Instant, sleep, timeout_at};

use super::Tiers;

// === types ===

/// The generation as it was last seen.
#[derive(Debug, Default)]
pub(super) struct Generation(RwLock<Option<Arc<str>>>);

/// How often it is looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Generation ===

impl Generation {
    /// `None`: the front is not used.
    pub(super) fn get(&self) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, seen: Option<&str>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() == seen {
            return;
        }
        match (&*known, seen) {
            (Some(_), Some(generation)) => {
                tracing::warn!(generation, "the front begins anew: what it held counts no more");
            }
            (None, Some(generation)) => tracing::info!(generation, "the front is used"),
            (_, None) => tracing::warn!("the store has no front any more: it is not used"),
        }
        *known = seen.map(Arc::from);
    }
}

// === looking ===

/// Asks both; what cannot be asked leaves the generation as it was last seen, so that a front without a PostgreSQL still
/// answers what it knows.
pub(super) async fn look(tiers: &Tiers) -> Result<(), StoreError> {
    let Some(registered) = tiers.register.find().await? else {
        tiers.generation.set(None);
        return Ok(());
    };
    let until = Instant::now() + tiers.options.front_timeout;
    if let Ok(Ok(generation)) = timeout_at(until, tiers.front.generation(&registered.generation)).await {
        tiers.generation.set(Some(&generation));
    }
    Ok(())
}

/// Looks again and again until the store is dropped.
pub(super) fn watch(tiers: &Arc<Tiers>) {
    let tiers = Arc::downgrade(tiers);
    tokio::spawn(async move {
        loop {
            sleep(PAUSE).await;
            let Some(tiers) = tiers.upgrade() else { return };
            let looked = timeout_at(Instant::now() + PATIENCE, look(&tiers)).await;
            if let Ok(Err(error)) = looked {
                tracing::debug!(error = &error as &dyn std::error::Error, "the generation could not be looked for");
            }
        }
    });
}
