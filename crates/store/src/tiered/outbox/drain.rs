//! Writes to PostgreSQL what the outbox holds. Memory is the source; what has gathered while a batch was on its way is the
//! next one. A claim waits for its completion for a moment, so that most records are one write.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use oncegate_core::{ErrorKind, Fence, RecordDigest, StoreError};
use tokio::time::sleep;

use super::{
    super::{Tiers, mode},
    Kept, forget,
    held::Refused,
    settle::Closing,
};
use crate::{
    entry::Entry,
    observer::Event,
    postgres::{Applied, is_poison, is_refused},
    redis::front::Sent,
};

/// How long the first entry waits for others: for PostgreSQL many rows are little more work than one.
const GATHER: Duration = Duration::from_millis(4);

/// How many entries are written at once, in some transactions.
const ENTRIES_MAX: usize = 1024;

/// Before it is looked again whether a claim has waited for long enough.
const LOOK: Duration = Duration::from_millis(25);

/// Before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Drains until the store is dropped.
pub(in super::super) fn start(tiers: &Arc<Tiers>) {
    let (outbox, tiers) = (Arc::clone(&tiers.outbox), Arc::downgrade(tiers));
    tokio::spawn(async move {
        loop {
            outbox.wake.notified().await;
            // Held from now on: what the store was told is still written when it is dropped.
            let Some(tiers) = tiers.upgrade() else { return };
            sleep(GATHER).await;
            while let Some(pause) = run_once(&tiers).await {
                sleep(pause).await;
            }
        }
    });
}

/// Says how much is held, closes the outbox when PostgreSQL falls behind, and has new keys wait until it has not.
pub(in super::super) fn watch(tiers: &Arc<Tiers>) {
    let pause = (tiers.options.outbox_limit / 8).clamp(Duration::from_millis(10), Duration::from_millis(500));
    let tiers = Arc::downgrade(tiers);
    tokio::spawn(async move {
        loop {
            sleep(pause).await;
            let Some(tiers) = tiers.upgrade() else { return };
            tiers.outbox.tell();
            forget::again(&tiers);
            if tiers.outbox.is_empty() {
                continue;
            }
            // For what was postponed.
            tiers.outbox.wake();
            if tiers.outbox.lags(tiers.options.outbox_limit) {
                mode::close(&tiers, "PostgreSQL is too far behind").await;
            }
            mode::keep_quiet(&tiers).await;
        }
    });
}

/// Writes a batch; how long to wait before the next one, or `None` until something new comes. What somebody has locked is
/// tried again later, and holds up nothing.
async fn run_once(tiers: &Arc<Tiers>) -> Option<Duration> {
    let batch = tiers.outbox.held().oldest(ENTRIES_MAX);
    if batch.is_empty() {
        tiers.outbox.tell();
        return tiers.outbox.held().has_resting().then_some(LOOK);
    }
    let telling = tiers.outbox.leftover.begin();
    let applied = join_all(batch.iter().map(|kept| apply(tiers, &kept.entry))).await;
    let mut sent = Vec::new();
    let mut pause = GATHER;
    for (kept, applied) in batch.iter().zip(applied) {
        let Kept { entry, number } = kept;
        match applied {
            Ok(Applied::Held) => tiers.outbox.postpone(entry.record),
            Ok(applied @ (Applied::Done | Applied::Stale | Applied::SetAside)) => {
                let places = tiers.outbox.applied(entry.record, *number);
                tell_if_late(tiers, entry, applied, &places);
                sent.extend(places);
            }
            Err(error) => {
                pause = PAUSE;
                tiers.outbox.held().failed(entry.record);
                if is_refused(&error) && refused(tiers, kept, &error).await {
                    sent.extend(tiers.outbox.applied(entry.record, *number));
                }
            }
        }
    }
    forget::forget(tiers, sent, telling);
    Some(pause)
}

/// PostgreSQL has refused an entry that is no poison by the reason it gave. If it alone is refused, it is set aside all the
/// same, since new keys wait for as long as it is kept; whether it was.
async fn refused(tiers: &Tiers, kept: &Kept, error: &StoreError) -> bool {
    let Kept { entry, number } = kept;
    let refused = tiers.outbox.held().refused(entry.record, *number);
    match refused {
        Refused::First => {
            let error = error as &dyn std::error::Error;
            tracing::warn!(record = entry.record.short(), error, "PostgreSQL refuses an entry of the outbox");
            false
        }
        Refused::Again => false,
        Refused::Alone => set_entry_aside(tiers, entry, error).await.is_ok(),
    }
}

/// Has PostgreSQL write an entry, or set it aside if it cannot be written.
///
/// # Errors
/// PostgreSQL does not answer, or refuses it; or PostgreSQL has lost its claim, and the front, which may have that, does not
/// answer.
pub(in super::super) async fn apply(tiers: &Tiers, entry: &Entry) -> Result<Applied, StoreError> {
    let mut applied = tiers.back.apply(entry.clone()).await;
    let mut whole = None;
    // PostgreSQL had the claim, and has none now: it may have failed over. The front has all of it still.
    if entry.claim.is_none() && matches!(applied, Ok(Applied::Stale)) {
        whole = with_claim(tiers, entry).await?;
    }
    if let Some(whole) = &whole {
        applied = tiers.back.apply(whole.clone()).await;
    }
    let entry = whole.as_ref().unwrap_or(entry);
    let error = match applied {
        Err(error) if is_poison(&error) => error,
        Ok(Applied::Stale) => {
            // Somebody else has ended the record, or its life is over: what the front says of it PostgreSQL does not.
            let is_completed = entry.completion.is_some();
            tracing::warn!(record = entry.record.short(), is_completed, "an entry of the outbox came too late");
            if is_completed {
                tiers.distrust(entry.record, Some(Fence::new(entry.fence.get() + 1))).await;
            }
            return Ok(Applied::Stale);
        }
        applied => return applied,
    };
    set_entry_aside(tiers, entry, &error).await?;
    Ok(Applied::SetAside)
}

/// A completion with the claim that it belongs to, if the front has that.
async fn with_claim(tiers: &Tiers, entry: &Entry) -> Result<Option<Entry>, StoreError> {
    let there = tiers.ask_of(entry.record, Closing::No).await?;
    let its = there.filter(|there| (there.fence, there.owner) == (entry.fence, entry.owner));
    Ok(its.map(|there| entry.clone().merged(there)))
}

/// Says that PostgreSQL does not keep what somebody was answered, of an entry that was in these places until now.
pub(super) fn tell_if_late(tiers: &Tiers, entry: &Entry, applied: Applied, places: &[Sent]) {
    if entry.completion.is_some() && applied == Applied::Stale && !places.is_empty() {
        tiers.options.back.observer.observe(&Event::TooLate);
    }
}

async fn set_entry_aside(tiers: &Tiers, entry: &Entry, error: &StoreError) -> Result<(), StoreError> {
    let reason = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let reason: Vec<_> = reason.map(ToString::to_string).collect();
    tiers.register.set_aside(entry, &reason.join(": ")).await?;
    tracing::error!(
        record = entry.record.short(),
        error = error as &dyn std::error::Error,
        "an entry of the outbox cannot be applied and was set aside"
    );
    tiers.options.back.observer.observe(&Event::Poison);
    Ok(())
}

/// What asks for a record whose entry was set aside is told.
pub(in super::super) fn set_aside(record: RecordDigest) -> StoreError {
    let text = format!("record {} was set aside and has to be written by hand: see oncegate check", record.short());
    StoreError::new(ErrorKind::Unavailable, text).unapplied()
}

/// What waits for an entry that cannot be written just now is told. It was not applied itself.
pub(in super::super) fn held(record: RecordDigest) -> StoreError {
    let text = format!("record {} is locked by another transaction", record.short());
    StoreError::new(ErrorKind::Unavailable, text).unapplied()
}
