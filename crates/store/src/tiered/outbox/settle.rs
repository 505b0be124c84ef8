//! What PostgreSQL has to know of a record before it is asked of it.

use std::sync::Arc;

use oncegate_core::{ErrorKind, RecordDigest, StoreError};
use tokio::time::Instant;

use super::{super::Tiers, drain, forget};
use crate::{entry::Entry, postgres::Applied};

// === types ===

/// Whether PostgreSQL alone writes a record from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Closing {
    Yes,
    No,
}

// === impl Tiers ===

impl Tiers {
    /// Has PostgreSQL know what was acknowledged of a record, by us or, as far as the front can tell, by others.
    ///
    /// # Errors
    /// PostgreSQL cannot be told. Within: the front cannot be asked.
    pub(in super::super) async fn settle(
        self: &Arc<Self>,
        record: RecordDigest,
        closing: Closing,
    ) -> Result<Result<(), StoreError>, StoreError> {
        if !self.mode.was_ever_open() {
            return Ok(Ok(()));
        }
        let there = self.ask_of(record, closing).await;
        let ours = self.outbox.of(record);
        let (there, asked) = match there {
            Ok(there) => (there, Ok(())),
            Err(error) => (None, Err(error)),
        };
        let entries = [ours.as_ref().map(|kept| kept.entry.clone()), there];
        let Some(entry) = entries.into_iter().flatten().reduce(Entry::merged) else { return Ok(asked) };
        let applied = drain::apply(self, &entry).await?;
        if applied == Applied::Held {
            return Err(drain::held(record));
        }
        if let Some(kept) = ours {
            let telling = self.outbox.leftover.begin();
            let places = self.outbox.applied(record, kept.number);
            // What only the front has was drained before, or is told of by who drains it.
            drain::tell_if_late(self, &entry, applied, &places);
            forget::forget(self, places, telling);
        }
        Ok(asked)
    }

    /// As [`settle`](Self::settle), for who goes by what we know where the front cannot be asked.
    pub(in super::super) async fn settle_ours(self: &Arc<Self>, record: RecordDigest) -> Result<(), StoreError> {
        self.settle(record, Closing::Yes).await.map(drop)
    }

    /// What was taken in the front of a record.
    pub(super) async fn ask_of(&self, record: RecordDigest, closing: Closing) -> Result<Option<Entry>, StoreError> {
        let Some(generation) = self.generation.get() else {
            return Err(StoreError::new(ErrorKind::Unavailable, "the front was never reached"));
        };
        let until = Instant::now() + self.options.front_timeout;
        let settling = self.front.settle(&generation, record, closing == Closing::Yes);
        self.front_breaker.run(until, settling).await
    }
}
