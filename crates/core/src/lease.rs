//! The right to execute, and the number that guards it.

use std::{fmt, time::Duration};

use crate::{KeySpelling, RecordDigest, Timestamp};

// === types ===

/// Number that grows with every acquisition of a record and is never reused.
///
/// It comes from a sequence of the store, so that a late write of an earlier life of a key cannot
/// match a later one. Every write after the claim carries it; stale ones change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(i64);

/// A random token that the sender of a claim keeps, so that a claim whose reply was lost recognises
/// its own row when it is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(uuid::Uuid);

/// The right to execute until a time. It must end in *complete*, *release*, *doubt* or *withdraw*;
/// if the process dies instead, the record is abandoned when the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Names the record in every later write.
    pub record: RecordDigest,
    /// Guards every later write.
    pub fence: Fence,
    /// Who claimed. `None` when the caller could not bring a token.
    pub owner: Option<Owner>,
    /// 1 for the first execution, one more with every takeover.
    pub attempt: u32,
    /// How long the lease was when it was given; count it on a monotonic clock from the moment that
    /// the store was *asked*.
    pub length: Duration,
    /// How the first request spelled the key; what is forwarded.
    pub spelling: KeySpelling,
    /// When the record was first claimed in this life, by the store's clock.
    pub created_at: Timestamp,
}

// === impl Fence ===

impl Fence {
    /// A fence as a store keeps it.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Owner ===

impl Owner {
    /// A token that nobody else has.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4())
    }

    /// A token as a store keeps it.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Uuid::from_bytes(bytes))
    }

    /// The token's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:.8})", self.0.simple().to_string())
    }
}
