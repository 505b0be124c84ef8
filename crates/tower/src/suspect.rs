//! One request of one caller under two keys: a client that makes a new key for each repeat. Found here among what this
//! process executes, reported, never blocked.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use oncegate_core::{ClaimRequest, Lease, RecordDigest, Suspicion, Timestamp};
use quick_cache::sync::Cache;

/// What was executed last of each request; the least recent are forgotten.
#[derive(Debug)]
pub(crate) struct Suspects {
    seen: Cache<u64, Seen>,
    hasher: RandomState,
    /// How far apart two keys are suspected.
    window: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    record: RecordDigest,
    created_at: Timestamp,
}

impl Suspects {
    /// How many requests are remembered, in about 2 MiB.
    const REQUESTS_MAX: usize = 32 * 1024;

    /// Nothing seen yet. Without a window nothing is ever suspected, nor remembered.
    pub(crate) fn new(window: Duration) -> Self {
        Self {
            seen: Cache::new(if window.is_zero() { 1 } else { Self::REQUESTS_MAX }),
            hasher: RandomState::new(),
            window,
        }
    }

    /// A request was executed, and not refused. Answers the record that makes it look executed twice.
    ///
    /// Of each request the record that was made last is kept, as a hash of 64 bits under a secret of this process; a
    /// collision costs one wrong report. Where both are noted at one moment, neither may see the other.
    pub(crate) fn note(&self, request: &ClaimRequest, lease: &Lease) -> Option<Suspicion> {
        if self.window.is_zero() {
            return None;
        }
        let of_request = self.hasher.hash_one((request.id.scope(), request.fingerprint));
        let seen = Seen { record: lease.record, created_at: lease.created_at };
        let other = self.seen.get(&of_request).filter(|other| other.record != seen.record);
        let Some(other) = other else {
            self.seen.insert(of_request, seen);
            return None;
        };
        let (earlier, later) = if other.created_at <= seen.created_at { (other, seen) } else { (seen, other) };
        self.seen.insert(of_request, later);
        let suspicion = Suspicion {
            record: later.record,
            earlier: earlier.record,
            operation: request.operation.clone(),
            is_anonymous: request.id.scope().names_nobody(),
            created_at: later.created_at,
            earlier_at: earlier.created_at,
        };
        (suspicion.apart() <= self.window).then_some(suspicion)
    }
}
