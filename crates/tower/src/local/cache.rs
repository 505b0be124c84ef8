//! Completed records, for a few seconds and a bounded number of bytes.

use std::time::Duration;

use oncegate_core::{Completed, RecordDigest};
use quick_cache::{Weighter, sync};
use tokio::time::Instant;

use super::ClaimKey;

// === types ===

/// Completed records, the least recently used dropped first.
#[derive(Debug)]
pub(super) struct Cache {
    records: sync::Cache<RecordDigest, Cached, ByHeldBytes>,
}

/// A completed record as it was when the store was asked.
#[derive(Debug, Clone)]
pub(super) struct Cached {
    pub(super) first: ClaimKey,
    completed: Completed,
    asked: Instant,
}

#[derive(Debug, Clone, Copy)]
struct ByHeldBytes;

// === impl Cache ===

impl Cache {
    /// What an operator does takes effect in every process within this time.
    const LIFE_MAX: Duration = Duration::from_secs(5);
    /// What a small payment response weighs, for the estimate of how many there will be.
    const TYPICAL_BYTES: u64 = 1024;

    pub(super) fn new(bytes_max: u64) -> Self {
        let estimated = usize::try_from(bytes_max / Self::TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { records: sync::Cache::with_weighter(estimated, bytes_max, ByHeldBytes) }
    }

    pub(super) fn get(&self, record: RecordDigest) -> Option<Cached> {
        let cached = self.records.get(&record)?;
        if cached.is_fresh() {
            return Some(cached);
        }
        self.records.remove(&record);
        None
    }

    pub(super) fn insert(&self, record: RecordDigest, cached: Cached) {
        self.records.insert(record, cached);
    }
}

// === impl Cached ===

impl Cached {
    pub(super) fn new(first: ClaimKey, completed: Completed, asked: Instant) -> Self {
        Self { first, completed, asked }
    }

    /// The record with what is left of its life now.
    pub(super) fn completed(&self) -> Completed {
        let expires_in = self.completed.expires_in.saturating_sub(self.asked.elapsed());
        Completed { expires_in, ..self.completed.clone() }
    }

    fn is_fresh(&self) -> bool {
        self.asked.elapsed() < Cache::LIFE_MAX.min(self.completed.expires_in)
    }
}

// === impl ByHeldBytes ===

impl Weighter<RecordDigest, Cached> for ByHeldBytes {
    fn weight(&self, _record: &RecordDigest, cached: &Cached) -> u64 {
        let held = cached.completed.response.held_bytes() + size_of::<Cached>() + size_of::<RecordDigest>();
        u64::try_from(held).unwrap_or(u64::MAX)
    }
}
