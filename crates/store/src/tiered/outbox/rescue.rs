//! Drains the outboxes of gateways that died.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use oncegate_core::StoreError;
use tokio::time::sleep;

use super::{super::Tiers, drain};
use crate::{
    postgres::{Applied, is_refused},
    redis::front::{Left, Sent, Tag},
};

// === types ===

/// What became of what a gateway has left.
#[derive(Default)]
struct Drained {
    /// Of so many places nothing is left.
    count: usize,
    /// Why others are left where they are.
    refused: Vec<StoreError>,
}

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
        let Drained { count, refused } = match drain_of(tiers, &gateway).await {
            Ok(drained) => drained,
            // What one has left does not hold up what the others have.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(gateway, error, "the outbox of a gateway that died cannot be drained");
                continue;
            }
        };
        if let Some(error) = refused.first() {
            let (count, error) = (refused.len(), error as &dyn std::error::Error);
            tracing::error!(
                gateway,
                count,
                error,
                "what a gateway that died has left cannot be read, or PostgreSQL refuses it"
            );
        }
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

/// Drains a gateway's outbox.
async fn drain_of(tiers: &Tiers, gateway: &str) -> Result<Drained, StoreError> {
    let mut all = Drained::default();
    for tags in Tag::parts() {
        let drained = try_join_all(tags.into_iter().map(|tag| drain_tag(tiers, gateway, tag))).await?;
        if drained.iter().any(|tag| tag.count > 0) {
            // New keys wait for what the dead held, as they do for the living, but not for what nobody can write.
            tiers.register.keep_quiet(true).await?;
        }
        for tag in drained {
            all.count += tag.count;
            all.refused.extend(tag.refused);
        }
    }
    Ok(all)
}

async fn drain_tag(tiers: &Tiers, gateway: &str, tag: Tag) -> Result<Drained, StoreError> {
    let mut all = Drained::default();
    let mut behind = None;
    loop {
        let (left, last) = tiers.front.left(gateway, tag, behind.as_ref()).await?;
        let mut done = Vec::new();
        for drained in join_all(left.into_iter().map(|left| drain_one(tiers, left))).await {
            match drained? {
                Ok(places) => done.extend(places),
                Err(refused) => all.refused.push(refused),
            }
        }
        tiers.front.forget(gateway, &done).await?;
        all.count += done.len();
        match last {
            Some(_) => behind = last,
            None => return Ok(all),
        }
    }
}

/// Has PostgreSQL know of a record; the places of which nothing is left to drain. Within: it cannot be read or written, and is
/// left where it is, for whoever can.
async fn drain_one(tiers: &Tiers, Left { places, entry }: Left) -> Result<Result<Vec<Sent>, StoreError>, StoreError> {
    let entry = match entry {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(Ok(places)),
        Err(error) => return Ok(Err(error)),
    };
    match drain::apply(tiers, &entry).await {
        Ok(Applied::Held) => Ok(Ok(Vec::new())),
        Ok(applied @ (Applied::Done | Applied::Stale | Applied::SetAside)) => {
            drain::tell_if_late(tiers, &entry, applied, &places);
            Ok(Ok(places))
        }
        Err(error) if is_refused(&error) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
