//! The contract that every store keeps.

use std::{error::Error, time::Duration};

use async_trait::async_trait;

use crate::{
    AuditEntry, Claim, ClaimRequest, DoubtReason, Lease, Note, Owner, Record, RecordDigest, RecordPrefix, Scope, Seen,
    StateName, StoredResponse, Suspicion,
};

// === types ===

/// Where records live. One verb is one atomic write; [`crate::decide`] is the specification, and
/// the conformance suite (feature `conformance`) is the judge.
///
/// # Guards
/// Every write after the claim names record, fence, owner (where the lease has one) and the states
/// that it may leave, and answers [`Written::Stale`] when no row matches; a stale write changes
/// nothing. An expired record is absent for every verb.
///
/// # Cancellation
/// Dropping a verb's future leaves open whether the verb was applied; it never leaves a half-applied
/// one. What follows from that is said at each verb.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Attempts to become the executor.
    ///
    /// Cancelled: the claim may stand with nobody to execute it; send the same claim again (same
    /// owner) or [`withdraw`](Self::withdraw) it.
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError>;

    /// Moves the lease's end to `length` from now. Leaves: in flight, also after the lease ended, as
    /// long as nobody took over. Cancelled: harmless either way.
    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError>;

    /// Stores the response. Leaves: in flight and unknown, also after the lease ended. A record that
    /// was completed under the same fence by the same owner is this call's own earlier success;
    /// without an owner there is no such excuse.
    ///
    /// Cancelled: send it again; it is stored once.
    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError>;

    /// Says that the outcome was lost: the record becomes unknown at once. Leaves: in flight.
    /// Cancelled: send it again.
    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError>;

    /// Gives the lease back; a repeat executes. Leaves: in flight. The record is absent then, or, after a
    /// takeover, abandoned as before it; see [`Record::given_back`]. Cancelled: send it again; if it was
    /// applied the second one is stale.
    async fn release(&self, lease: &Lease) -> Result<Written, StoreError>;

    /// Undoes a claim whose caller gave up before anything was sent. Leaves: in flight, and unknown, for
    /// only its own claim knows the owner, and what was not sent is not in doubt. What is left is as after
    /// [`release`](Self::release). It must reach the store after that claim; a store whose claims can
    /// overtake each other remembers it. Cancelled: send it again.
    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError>;

    /// Reads a record, with its response if it is completed. Cancelled: nothing happens.
    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError>;

    /// Lists records, oldest first, without their responses. Cancelled: nothing happens.
    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError>;

    /// Stores the response that an operator gives. Leaves: in flight, under a live lease too, and unknown,
    /// if the record is still as seen.
    ///
    /// The record has no owner afterwards: an execution that still runs must not take the operator's
    /// response for its own earlier success, so every later write of it is stale.
    ///
    /// Cancelled: look with [`get`](Self::get); what was done stands in the [`audit`](Self::audit).
    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError>;

    /// Deletes a record on an operator's word, if it is still as seen; one whose lease is live only by
    /// force. Leaves: every state; [`OperatorVerb::deleting`](crate::OperatorVerb::deleting) says what it
    /// is called. Cancelled: as [`resolve`](Self::resolve).
    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError>;

    /// What operators did, the latest first, at most so many; 0 means [`Filter::ROWS_MAX`]. Every resolve
    /// and purge that was done has its entry, in the same commit; what was stale has none. Entries outlive
    /// their records. Cancelled: nothing happens.
    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Deletes up to `rows` expired records, and turns up to `rows` abandoned records whose policy
    /// forbids a takeover into unknown ones. Never blocks claims for longer than one such batch.
    /// Cancelled: a batch is applied or not; the next pass goes on.
    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError>;

    /// Counts the living records: those in flight, abandoned and unknown as they are; of the completed ones a store
    /// may answer an estimate where counting them would mean to read a large table. Cancelled: nothing happens.
    async fn census(&self) -> Result<Census, StoreError>;

    /// Notes what others have found, looks for more among the records of about the last `window`, and answers what
    /// nobody had noted before; at most [`Suspicion::NOTED_MAX`]. Reads a bounded number of records, beside claims and
    /// never before them; where many processes share a store, one of them looks, once a minute, and each is answered
    /// what it was the first to note. Cancelled: what was noted may be answered to nobody.
    ///
    /// A store that does not look answers what it was given.
    async fn suspect(&self, found: Vec<Suspicion>, window: Duration) -> Result<Vec<Suspicion>, StoreError> {
        let _ = window;
        Ok(found)
    }

    /// Waits until all that this handle has acknowledged so far is where it cannot be lost with this process. Most stores
    /// acknowledge nothing earlier. Cancelled: nothing happens.
    async fn drained(&self) {}

    /// What was noted, the latest first, at most so many; 0 means [`Filter::ROWS_MAX`]. Nothing where nothing is noted.
    /// Cancelled: nothing happens.
    async fn suspected(&self, rows: usize) -> Result<Vec<Suspicion>, StoreError> {
        let _ = rows;
        Ok(Vec::new())
    }
}

/// What a write after the claim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a stale write changed nothing"]
pub enum Written {
    /// It is stored.
    Done,
    /// The record has another fence or state by now, or is gone; nothing changed.
    Stale,
}

/// Which records to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this state.
    pub state: Option<StateName>,
    /// Only in flight past the lease.
    pub abandoned: bool,
    /// Only this scope.
    pub scope: Option<Scope>,
    /// Only scopes whose text has this part, such as a tenant's name; upper and lower case differ.
    pub scope_part: Option<String>,
    /// Only this key.
    pub key: Option<crate::IdempotencyKey>,
    /// Only records whose digest begins so.
    pub prefix: Option<RecordPrefix>,
    /// At most so many; 0 means [`Filter::ROWS_MAX`].
    pub rows: usize,
}

/// What one pass of the reaper did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Expired records deleted.
    pub expired: usize,
    /// Abandoned records that became unknown.
    pub doubted: usize,
}

/// How many records are in which state, expired ones left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Under a live lease.
    pub in_flight: u64,
    /// Lease ended, nothing completed, a repeat may take over.
    pub abandoned: u64,
    /// Stored responses; of a large store perhaps an estimate.
    pub completed: u64,
    /// Waiting for an operator.
    pub unknown: u64,
}

/// A store could not do what it was asked. Somebody else holding a record is never an error.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    kind: ErrorKind,
    text: String,
    is_unapplied: bool,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What a caller can do about a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not reachable, or it failed; try again later. Whether a write was applied is open, unless the error
    /// [says that it was not](StoreError::is_unapplied).
    Unavailable,
    /// Too much is queued; nothing was applied.
    Overloaded,
    /// No room left for a new record; nothing was applied.
    Full,
    /// What the store holds cannot be read; a person must look.
    Corrupt,
    /// Another record has the same digest; nothing was applied.
    Collision,
}

// === impl Filter ===

impl Filter {
    /// The most records that one call lists.
    pub const ROWS_MAX: usize = 1000;

    /// How many records this filter allows.
    #[must_use]
    pub fn rows(&self) -> usize {
        Self::allowed(self.rows)
    }

    /// How many of `rows` asked for one call answers.
    #[must_use]
    pub fn allowed(rows: usize) -> usize {
        match rows {
            0 => Self::ROWS_MAX,
            rows => rows.min(Self::ROWS_MAX),
        }
    }

    /// Whether a living record belongs to the list.
    #[must_use]
    pub fn matches(&self, record: &Record, now: crate::Timestamp) -> bool {
        self.state.is_none_or(|state| state == record.state.name())
            && (!self.abandoned || record.is_abandoned(now))
            && self.scope.as_ref().is_none_or(|scope| scope == record.id.scope())
            && self.scope_part.as_ref().is_none_or(|part| record.id.scope().as_str().contains(part))
            && self.key.as_ref().is_none_or(|key| key == record.id.key())
            && self.prefix.is_none_or(|prefix| prefix.contains(record.id.digest()))
    }
}

// === impl StoreError ===

impl StoreError {
    /// An error in the house's form: lower case, no full stop, what failed with which value.
    #[must_use]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let is_unapplied = match kind {
            ErrorKind::Unavailable | ErrorKind::Corrupt => false,
            ErrorKind::Overloaded | ErrorKind::Full | ErrorKind::Collision => true,
        };
        Self { kind, text: text.into(), is_unapplied, source: None }
    }

    /// The same error of a verb that was certainly not applied: it was never sent, or it was rolled back.
    #[must_use]
    pub fn unapplied(self) -> Self {
        Self { is_unapplied: true, ..self }
    }

    /// The same error of a verb that may have been applied, by an earlier attempt.
    #[must_use]
    pub fn perhaps_applied(self) -> Self {
        Self { is_unapplied: false, ..self }
    }

    /// The driver's error behind it.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the verb was certainly not applied, so that a claim need not be withdrawn.
    #[must_use]
    pub fn is_unapplied(&self) -> bool {
        self.is_unapplied
    }
}
