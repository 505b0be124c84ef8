//! Who says that a key is new: PostgreSQL, or the front with an outbox behind it. One row of PostgreSQL decides for all
//! gateways, and nobody switches alone.

use std::sync::{
    PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use oncegate_core::StoreError;
use uuid::Uuid;

use super::{Durability, Tiers, outbox::rescue};
use crate::postgres::RegisteredFront;

// === types ===

/// The mode as it was last seen. A gateway that is wrong about it is put right by PostgreSQL or by the front, at the cost of
/// a round trip.
#[derive(Debug, Default)]
pub(super) struct Mode {
    seen: RwLock<Seen>,
    /// How many claims, one after the other, the front was to take and did not answer.
    missed: AtomicU32,
    /// Somebody was told that the front may evict.
    has_warned: AtomicBool,
    /// Held by whoever switches.
    switching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    /// PostgreSQL's part of the generation: another PostgreSQL, or an earlier state of it, counts anew.
    origin: String,
    /// How often an outbox was opened or closed.
    epoch: i64,
    /// Of the outbox that is open.
    sentinel: Option<Uuid>,
    /// The others know this gateway, so that they drain its outbox should it die.
    is_known: bool,
}

/// A connection that was lost fails some; a front that answers, and writes nothing, fails each.
const MISSED_MAX: u32 = 4;

// === impl Mode ===

impl Mode {
    /// Whether an outbox is open and this gateway may use it.
    pub(super) fn is_open(&self) -> bool {
        self.seen(|seen| seen.sentinel.is_some() && seen.is_known)
    }

    /// Whether one was ever open: then something may be left of it.
    pub(super) fn was_ever_open(&self) -> bool {
        self.seen(|seen| seen.epoch > 0)
    }

    /// The front was to take a claim and did not answer; whether that is enough.
    pub(super) fn missed(&self) -> bool {
        self.missed.fetch_add(1, Ordering::Relaxed) + 1 >= MISSED_MAX
    }

    /// The front has taken a claim.
    pub(super) fn took(&self) {
        self.missed.store(0, Ordering::Relaxed);
    }

    fn seen<T>(&self, of: impl FnOnce(&Seen) -> T) -> T {
        of(&self.seen.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// PostgreSQL says so. What is heard late counts no more.
    pub(super) fn note(&self, origin: &str, epoch: i64, sentinel: Option<Uuid>) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if origin == seen.origin && epoch <= seen.epoch {
            return;
        }
        if seen.sentinel.is_some() && sentinel.is_none() {
            tracing::warn!(epoch, "the outbox is closed: claims are PostgreSQL's");
        }
        // The others go on knowing this gateway where nothing but the generation has changed.
        let is_known = seen.is_known && sentinel.is_some() && sentinel == seen.sentinel;
        *seen = Seen { origin: origin.to_owned(), epoch, sentinel, is_known };
    }

    /// PostgreSQL remembers no front.
    pub(super) fn forget(&self) {
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Seen::default();
    }

    /// The others know this gateway.
    fn enter(&self, sentinel: Uuid) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.sentinel == Some(sentinel) && !std::mem::replace(&mut seen.is_known, true) {
            tracing::info!("the outbox is open: the front takes claims");
        }
    }

    /// Does not use an outbox that somebody else has switched, until PostgreSQL has said what came of it.
    fn leave(&self, sentinel: Uuid) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.sentinel == Some(sentinel) {
            seen.is_known = false;
        }
    }
}

// === switching ===

/// Has new keys wait for as long as what was acknowledged here is not in PostgreSQL, also if the front cannot be asked.
pub(super) async fn keep_quiet(tiers: &Tiers) {
    // Whether one is open PostgreSQL knows best. Where it cannot be told, nobody claims there either.
    if tiers.outbox.holds_claims() {
        let _ = tiers.register.keep_quiet(true).await;
    }
}

/// Does what a gateway has to do about what PostgreSQL says.
pub(super) async fn follow(tiers: &Tiers, registered: &RegisteredFront, can_evict: bool) -> Result<(), StoreError> {
    match registered.sentinel {
        Some(_) if !registered.wants_outbox || can_evict => {
            let why = if can_evict { "the front may evict what it acknowledged" } else { "no outbox is wanted" };
            close(tiers, why).await;
        }
        // From then on it greets by itself.
        Some(sentinel) if !tiers.mode.is_open() => {
            rescue::greet(tiers).await?;
            tiers.mode.enter(sentinel);
        }
        Some(_) => {}
        None if can_evict && tiers.options.durability == Durability::Outbox => {
            if !tiers.mode.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!("no outbox is opened, since the front may evict what it holds: set noeviction");
            }
        }
        None => open(tiers, registered).await?,
    }
    Ok(())
}

/// Opens an outbox, if one is wanted, can be used, and enough time has passed since the last one.
async fn open(tiers: &Tiers, registered: &RegisteredFront) -> Result<(), StoreError> {
    let is_wanted = registered.wants_outbox && tiers.options.durability == Durability::Outbox;
    let can_be_used = !tiers.front_breaker.is_open() && !tiers.outbox.lags(tiers.options.outbox_limit);
    let Some(generation) = tiers.generation.get() else { return Ok(()) };
    if !(is_wanted && can_be_used && registered.is_rested) {
        return Ok(());
    }
    let Ok(_switching) = tiers.mode.switching.try_lock() else { return Ok(()) };
    if !tiers.register.take_turn(registered.epoch).await? {
        return Ok(());
    }
    // First the front, then PostgreSQL: what the front loses from here on is missed.
    let sentinel = Uuid::new_v4();
    rescue::greet(tiers).await?;
    tiers.front.open_outbox(&generation, sentinel).await?;
    if tiers.register.open_outbox(registered.epoch, sentinel).await? {
        tiers.mode.note(&registered.generation, registered.epoch + 1, Some(sentinel));
        tiers.mode.enter(sentinel);
    }
    Ok(())
}

/// Closes the outbox that is open as far as is known. PostgreSQL is told first; who cannot tell it changes nothing.
pub(super) async fn close(tiers: &Tiers, why: &'static str) {
    let Seen { origin, epoch, sentinel: Some(sentinel), .. } = tiers.mode.seen(Seen::clone) else { return };
    let Ok(_switching) = tiers.mode.switching.try_lock() else { return };
    match tiers.register.close_outbox(sentinel).await {
        Ok(true) => {
            tracing::warn!(why, "the outbox is being closed: new keys wait until PostgreSQL has what it held");
            tiers.mode.note(&origin, epoch + 1, None);
            // Else another gateway does.
            let _ = tiers.register.keep_quiet(false).await;
            // Who has not heard of it, or asks a PostgreSQL that has not, finds it missing.
            tiers.tell("close", tiers.front.close_outbox()).await;
        }
        Ok(false) => tiers.mode.leave(sentinel),
        Err(error) => tracing::warn!(
            why,
            error = &error as &dyn std::error::Error,
            "the outbox has to be closed, and PostgreSQL cannot be told"
        ),
    }
}
