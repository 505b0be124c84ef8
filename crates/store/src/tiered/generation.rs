//! Which entries of the front count. A purge that the front could not be told of, another timeline of PostgreSQL, and
//! another life of the front each make a new generation; what was confirmed under an older one is void.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use oncegate_core::StoreError;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Tiers, mode};

// === types ===

/// The generation as it was last seen.
#[derive(Debug, Default)]
pub(super) struct Generation {
    seen: RwLock<Option<Seen>>,
    /// How often claims had it looked for, and whose turn that is.
    looks: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Seen {
    /// PostgreSQL's part of it.
    origin: String,
    generation: Arc<str>,
}

/// How often it is looked for.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// How long PostgreSQL may take for its part before its connection is left: what is purged must be seen within seconds,
/// also by who holds a connection that died in silence.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

// === impl Generation ===

impl Generation {
    /// `None`: the front is not used.
    pub(super) fn get(&self) -> Option<Arc<str>> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|seen| Arc::clone(&seen.generation))
    }

    fn set(&self, origin: &str, generation: &str) {
        let mut known = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref().map(|seen| &*seen.generation) {
            Some(seen) if seen == generation => return,
            Some(_) => tracing::warn!(generation, "the front begins anew: what it held counts no more"),
            None => tracing::info!(generation, "the front is used"),
        }
        *known = Some(Seen { origin: origin.to_owned(), generation: Arc::from(generation) });
    }

    /// Uses the front no more, unless what was seen is of this origin.
    fn keep_only(&self, origin: Option<&str>) {
        let mut known = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if known.take_if(|seen| origin != Some(&*seen.origin)).is_some() {
            tracing::warn!("what the front held counts no more, and it has no other generation yet: it is not used");
        }
    }
}

// === looking ===

/// Asks both. A PostgreSQL that cannot be asked leaves the generation as it was last seen, so that a front without it still
/// answers what it knows; so does a front, unless PostgreSQL's part has changed.
pub(super) async fn look(tiers: &Tiers) -> Result<(), StoreError> {
    let Some(registered) = tiers.register.find().await? else {
        tiers.generation.keep_only(None);
        tiers.mode.forget();
        return Ok(());
    };
    tiers.front.stand_before(&registered.database);
    tiers.mode.note(&registered.generation, registered.epoch, registered.sentinel);
    if tiers.is_gateway() && registered.is_closing {
        tiers.register.keep_quiet(false).await?;
    }
    let until = Instant::now() + tiers.options.front_timeout;
    let seen = timeout_at(until, tiers.front.generation(&registered.generation)).await;
    let Ok(Ok((generation, can_evict))) = seen else {
        tiers.generation.keep_only(Some(&registered.generation));
        return Ok(());
    };
    tiers.generation.set(&registered.generation, &generation);
    if tiers.is_gateway()
        && let Err(error) = mode::follow(tiers, &registered, can_evict).await
    {
        tracing::debug!(error = &error as &dyn std::error::Error, "the mode could not be followed");
    }
    Ok(())
}

/// As [`look`], for a claim: all that have to look meanwhile go by what one of them finds.
pub(super) async fn look_together(tiers: &Tiers) -> Result<(), StoreError> {
    let Generation { looks, turn, .. } = &tiers.generation;
    let before = looks.load(Ordering::Relaxed);
    let _turn = turn.lock().await;
    if looks.load(Ordering::Relaxed) == before {
        look(tiers).await?;
        looks.fetch_add(1, Ordering::Relaxed);
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
            if let Err(error) = look(&tiers).await {
                tracing::debug!(error = &error as &dyn std::error::Error, "the generation could not be looked for");
            }
        }
    });
}
