//! The stored row, and what names it.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use crate::{Backend, Fence, Fingerprint, IdempotencyKey, KeySpelling, OnAbandoned, Owner, Scope, Timestamp, digest};

// === types ===

/// Scope and key: what a record is found by. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordId(Arc<Named>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Named {
    scope: Scope,
    key: IdempotencyKey,
    digest: RecordDigest,
}

/// The record id as stores and backends see it: the first 128 bits of the SHA-256 of scope and key,
/// each behind its length (four bytes, big endian); written as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordDigest(uuid::Uuid);

/// A record without its response, which is stored apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Scope and key.
    pub id: RecordId,
    /// What the first request asked for, for people.
    pub operation: Operation,
    /// How the first request spelled the key.
    pub spelling: KeySpelling,
    /// What must not differ in a repeat.
    pub fingerprint: Fingerprint,
    /// What the backend was said to guarantee when the record was claimed.
    pub backend: Backend,
    /// What may happen when the lease ends and nothing was completed.
    pub on_abandoned: OnAbandoned,
    /// The fence of the latest acquisition.
    pub fence: Fence,
    /// The token of the latest acquisition.
    pub owner: Option<Owner>,
    /// 1 for the first execution, one more with every takeover.
    pub attempt: u32,
    /// How long the latest lease was when it was given; a takeover doubles it.
    pub lease: Duration,
    /// How long every state of the record lives, counted from its last transition.
    pub retention: Duration,
    /// When the key was first claimed in this life.
    pub created_at: Timestamp,
    /// When the record is absent for every verb, whether or not it was reaped.
    pub expires_at: Timestamp,
    /// What is known of the execution.
    pub state: State,
}

/// What is known of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Somebody executes, or died while executing.
    InFlight {
        /// When the lease ends; after it the record is abandoned.
        lease_until: Timestamp,
    },
    /// The response is stored.
    Completed {
        /// When it was.
        completed_at: Timestamp,
        /// Its HTTP status code.
        status: u16,
    },
    /// Nobody can tell whether the effect happened; an operator resolves it.
    Unknown {
        /// Since when.
        since: Timestamp,
        /// What was learnt.
        reason: DoubtReason,
    },
}

/// A [`State`] by name: for filters, guards and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateName {
    /// `in_flight`
    InFlight,
    /// `completed`
    Completed,
    /// `unknown`
    Unknown,
}

/// Why nobody can tell whether the effect happened; a short text that repeats are told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DoubtReason(Cow<'static, str>);

/// Method and path of the first request with a key, for people: `POST /api/payments`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation(Arc<str>);

// === impl RecordId ===

impl RecordId {
    /// Names the record of `key` in `scope`.
    #[must_use]
    pub fn new(scope: Scope, key: IdempotencyKey) -> Self {
        let hash = digest::length_prefixed(&[scope.as_str().as_bytes(), key.as_str().as_bytes()]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Self(Arc::new(Named { scope, key, digest: RecordDigest::from_bytes(bytes) }))
    }

    /// The space in which the key is unique.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// The client's key.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.0.key
    }

    /// The primary key.
    #[must_use]
    pub fn digest(&self) -> RecordDigest {
        self.0.digest
    }
}

// === impl RecordDigest ===

impl RecordDigest {
    /// A digest as a store keeps it.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Uuid::from_bytes(bytes))
    }

    /// The digest's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Reads the UUID form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        uuid::Uuid::try_parse(text).ok().map(Self)
    }

    /// The first eight hexadecimal digits: what logs show.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.simple().to_string()[..8].to_owned()
    }
}

impl fmt::Display for RecordDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for RecordDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordDigest({self})")
    }
}

// === impl Record ===

impl Record {
    /// Whether the record is absent for every verb.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether the lease ended and nothing was completed.
    #[must_use]
    pub fn is_abandoned(&self, now: Timestamp) -> bool {
        match self.state {
            State::InFlight { lease_until } => lease_until <= now,
            State::Completed { .. } | State::Unknown { .. } => false,
        }
    }
}

// === impl State ===

impl State {
    /// The state's name.
    #[must_use]
    pub fn name(&self) -> StateName {
        match self {
            Self::InFlight { .. } => StateName::InFlight,
            Self::Completed { .. } => StateName::Completed,
            Self::Unknown { .. } => StateName::Unknown,
        }
    }
}

// === impl StateName ===

impl StateName {
    /// The word that stores, problem documents and operators use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
        }
    }

    /// Reads such a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::InFlight, Self::Completed, Self::Unknown].into_iter().find(|state| state.as_str() == word)
    }
}

// === impl DoubtReason ===

impl DoubtReason {
    /// The longest reason, in bytes; longer ones are cut.
    pub const LENGTH_MAX: usize = 200;
    /// The lease ended and nothing was completed.
    pub const WORKER_DIED: Self = Self(Cow::Borrowed("worker died"));
    /// Taken over as often as the policy allows, and every worker died.
    pub const ATTEMPTS_EXHAUSTED: Self = Self(Cow::Borrowed("attempts exhausted"));
    /// The upstream did not answer in time.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("timeout"));
    /// The connection ended after something was sent.
    pub const RESET: Self = Self(Cow::Borrowed("reset"));
    /// The response's body ended early.
    pub const BODY_CUT: Self = Self(Cow::Borrowed("body cut short"));
    /// The handler failed, panicked or was cancelled.
    pub const HANDLER_FAILED: Self = Self(Cow::Borrowed("handler failed"));

    /// A reason in the caller's words.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Cow::Owned(cut(text, Self::LENGTH_MAX)))
    }

    /// An answer whose status does not tell whether the effect happened.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self(Cow::Owned(format!("status {status}")))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl Operation ===

impl Operation {
    /// The longest operation, in bytes; longer paths are cut.
    pub const LENGTH_MAX: usize = 512;

    /// Method and path of a request.
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        Self::from_text(&format!("{method} {path}"))
    }

    /// An operation as a store keeps it.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(cut(text, Self::LENGTH_MAX).into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Without NUL, which PostgreSQL's `text` cannot hold, and at most `length_max` bytes.
fn cut(text: &str, length_max: usize) -> String {
    let end = text.floor_char_boundary(length_max);
    text[..end].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scope: &str, key: &str) -> RecordId {
        RecordId::new(Scope::from_text(scope).unwrap(), IdempotencyKey::new(key).unwrap())
    }

    #[test]
    fn record_id_separates_scope_from_key() {
        assert_ne!(id("ab", "c").digest(), id("a", "bc").digest());
        assert_eq!(id("a", "b").digest(), id("a", "b").digest());
    }

    #[test]
    fn digest_is_written_as_a_uuid() {
        let digest = id("", "k").digest();
        assert_eq!(RecordDigest::parse(&digest.to_string()), Some(digest));
        assert!(digest.to_string().starts_with(&digest.short()));
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let operation = Operation::new("POST", &format!("/{}", "ж".repeat(400)));
        assert!(operation.as_str().len() <= Operation::LENGTH_MAX);
        assert_eq!(DoubtReason::new("a\0b").as_str(), "ab");
    }
}
