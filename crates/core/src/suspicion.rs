//! One request under two keys.

use std::time::Duration;

use crate::{Operation, RecordDigest, Timestamp};

/// The same request of the same caller, executed under two keys within a short time: likely a client that makes a new
/// key for each repeat and is guarded against nothing. Reported, never blocked, since it may be meant.
///
/// The same: the scope and the fingerprint are. Executed: not as far as is known that the first or the second was
/// refused (4xx) or released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspicion {
    /// The later record; it is suspected once, whoever sees it and how often.
    pub record: RecordDigest,
    /// The record of the same request before it.
    pub earlier: RecordDigest,
    /// What the later record's first request asked for.
    pub operation: Operation,
    /// Nothing tells who calls, so that these may be two callers.
    pub is_anonymous: bool,
    /// When the later key was first claimed.
    pub created_at: Timestamp,
    /// When the earlier key was.
    pub earlier_at: Timestamp,
}

// === impl Suspicion ===

impl Suspicion {
    /// How far apart two keys are suspected, unless somebody says otherwise: longer than people and programs usually
    /// repeat, shorter than most things that are meant to happen twice.
    pub const WINDOW: Duration = Duration::from_mins(10);

    /// The most that one look of a store notes.
    pub const NOTED_MAX: usize = 1000;

    /// How many a store keeps noted; the earliest are forgotten.
    pub const KEPT_MAX: usize = 20_000;

    /// How long it was between the two.
    #[must_use]
    pub fn apart(&self) -> Duration {
        self.created_at.since(self.earlier_at)
    }
}
