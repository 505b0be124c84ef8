//! Drains the outboxes of gateways that died.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use oncegate_core::StoreError;
use tokio::time::sleep;

use super::{super::Tiers, drain};
use crate::{
    postgres::{Applied, is_refused},
    redis::front::{Left, PLACES_MAX, Sent, Tag},
};

/// How often the dead are looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long a gateway is believed to live that has said so.
const LIFE: Duration = Duration::from_secs(3);

// It last said so before it died, and is looked for a pause after that is over; the rest of ten seconds is for draining.
const _: () = assert!(LIFE.as_secs() + PAUSE.as_secs() < 5, "what the dead leave is drained within ten seconds");

/// Looks for them until the store is dropped, and says all the while that this gateway lives: also while PostgreSQL cannot be
/// asked, without which nobody is drained.
pub(in super::super) fn start(tiers: &Arc<Tiers>) {
    again_and_again(tiers, |tiers| async move { greet(&tiers).await });
    again_and_again(tiers, |tiers| async move { run_once(&tiers).await });
}

fn again_and_again<F>(tiers: &Arc<Tiers>, duty: impl Fn(Arc<Tiers>) -> F + Send + 'static)
where
    F: Future<Output = Result<(), StoreError>> + Send,
{
    let tiers = Arc::downgrade(tiers);
    tokio::spawn(async move {
        loop {
            sleep(PAUSE).await;
            let Some(tiers) = tiers.upgrade() else { return };
            if !(tiers.is_gateway() && tiers.mode.was_ever_open()) {
                continue;
            }
            if let Err(error) = duty(tiers).await {
                tracing::debug!(error = &error as &dyn std::error::Error, "the dead could not be looked for");
            }
        }
    });
}

/// Says that this gateway lives, so that nobody else drains its outbox, and somebody does should it die.
pub(in super::super) async fn greet(tiers: &Tiers) -> Result<(), StoreError> {
    tiers.front.greet(&tiers.outbox.name, LIFE).await
}

async fn run_once(tiers: &Tiers) -> Result<(), StoreError> {
    for gateway in tiers.front.dead().await? {
        let count = match drain_of(tiers, &gateway).await {
            Ok(count) => count,
            // What one has left does not hold up what the others have.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(gateway, error, "the outbox of a gateway that died cannot be drained");
                continue;
            }
        };
        // Not of one where something is left that somebody has locked, or nobody can read.
        if tiers.front.bid_farewell(&gateway).await? {
            match count {
                0 => tracing::info!(gateway, "a gateway has ended, and left nothing in its outbox"),
                _ => tracing::warn!(gateway, count, "the outbox of a gateway that died is drained"),
            }
        }
    }
    Ok(())
}

/// Drains a gateway's outbox; how many entries there were.
async fn drain_of(tiers: &Tiers, gateway: &str) -> Result<usize, StoreError> {
    let mut count = 0;
    for tags in Tag::parts() {
        let counts = tags.into_iter().map(|tag| drain_tag(tiers, gateway, tag));
        let written = try_join_all(counts).await?.into_iter().sum::<usize>();
        if written > 0 {
            // New keys wait for what the dead held, as they do for the living, but not for what nobody can write.
            tiers.register.keep_quiet(true).await?;
        }
        count += written;
    }
    Ok(count)
}

async fn drain_tag(tiers: &Tiers, gateway: &str, tag: Tag) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let left = tiers.front.left(gateway, tag).await?;
        let is_last = left.iter().map(|left| left.places.len()).sum::<usize>() < PLACES_MAX;
        let drained = join_all(left.into_iter().map(|left| drain_one(tiers, left))).await;
        let done = drained.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        tiers.front.forget(gateway, &done).await?;
        count += done.len();
        if is_last || done.is_empty() {
            return Ok(count);
        }
    }
}

/// Has PostgreSQL know of a record; the places of which nothing is left to drain. What cannot be read or written is left where
/// it is, for whoever can, and holds up nothing else.
async fn drain_one(tiers: &Tiers, Left { places, entry }: Left) -> Result<Vec<Sent>, StoreError> {
    let entry = match entry {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(places),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "an entry of an outbox cannot be read");
            return Ok(Vec::new());
        }
    };
    let applied = drain::apply(tiers, &entry).await;
    drain::tell_if_late(tiers, &entry, applied.as_ref());
    match applied {
        Ok(Applied::Done | Applied::Stale | Applied::SetAside) => Ok(places),
        Ok(Applied::Held) => Ok(Vec::new()),
        Err(error) if is_refused(&error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(
                record = entry.record.short(),
                error,
                "PostgreSQL refuses what a gateway that died has left"
            );
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
