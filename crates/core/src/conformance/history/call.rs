//! A verb that was sent, and what came back.

use std::time::Duration;

use crate::{
    Claim, ClaimRequest, DoubtReason, Lease, Owner, Reaped, Record, RecordDigest, Seen, Store, StoreError,
    StoredResponse, Timestamp, Written, conformance::trial::note,
};

// === types ===

/// All rounds of a history, as they happened.
#[derive(Debug)]
pub(super) struct History {
    /// The records it played with.
    pub(super) records: Vec<RecordDigest>,
    pub(super) rounds: Vec<Round>,
    /// How far the store's clock may have run on by itself.
    pub(super) drift: Duration,
}

/// Calls that overlapped, and what every record read like afterwards.
#[derive(Debug)]
pub(super) struct Round {
    /// The store's clock before the first call and after the last; the same unless it runs on.
    pub(super) times: [Timestamp; 2],
    pub(super) events: Vec<Event>,
    /// In the order of [`History::records`].
    pub(super) reads: Vec<Reply>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) caller: usize,
    pub(super) call: Call,
    pub(super) reply: Reply,
    /// When it was sent and when it returned, by one counter of the whole history.
    pub(super) sent: u64,
    pub(super) returned: u64,
}

/// A verb with its arguments.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Claim(ClaimRequest),
    Extend(Lease, Duration),
    Complete(Lease, StoredResponse),
    Doubt(Lease, DoubtReason),
    Release(Lease),
    Withdraw(RecordDigest, Owner),
    Resolve(Seen, StoredResponse),
    /// With force or without.
    Purge(Seen, bool),
    Get(RecordDigest),
    Reap,
}

/// What a record reads like.
pub(super) type Found = Option<(Record, Option<StoredResponse>)>;

/// What a verb answered.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Claim(Claim),
    Written(Written),
    Found(Box<Found>),
    Reaped(Reaped),
    /// No history provokes an error, so none explains one, but that of a claim which its own withdrawal has overtaken.
    Failed(String),
}

// === impl Call ===

impl Call {
    /// More rows than any round can have.
    const REAP_ROWS: usize = 1000;

    /// The record that it is about; `None`: about all of them.
    pub(super) fn record(&self) -> Option<RecordDigest> {
        match self {
            Self::Claim(request) => Some(request.id.digest()),
            Self::Extend(lease, _) | Self::Complete(lease, _) | Self::Doubt(lease, _) | Self::Release(lease) => {
                Some(lease.record)
            }
            Self::Withdraw(record, _) | Self::Get(record) => Some(*record),
            Self::Resolve(seen, _) | Self::Purge(seen, _) => Some(seen.record),
            Self::Reap => None,
        }
    }

    /// The verb's name.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Extend(..) => "extend",
            Self::Complete(..) => "complete",
            Self::Doubt(..) => "doubt",
            Self::Release(_) => "release",
            Self::Withdraw(..) => "withdraw",
            Self::Resolve(..) => "resolve",
            Self::Purge(..) => "purge",
            Self::Get(_) => "get",
            Self::Reap => "reap",
        }
    }

    pub(super) async fn send(&self, store: &dyn Store) -> Reply {
        match self {
            Self::Claim(request) => reply(store.claim(request).await, Reply::Claim),
            Self::Extend(lease, length) => reply(store.extend(lease, *length).await, Reply::Written),
            Self::Complete(lease, response) => reply(store.complete(lease, response).await, Reply::Written),
            Self::Doubt(lease, reason) => reply(store.doubt(lease, reason).await, Reply::Written),
            Self::Release(lease) => reply(store.release(lease).await, Reply::Written),
            Self::Withdraw(record, owner) => reply(store.withdraw(*record, *owner).await, Reply::Written),
            Self::Resolve(seen, response) => reply(store.resolve(*seen, response, &note(false)).await, Reply::Written),
            Self::Purge(seen, force) => reply(store.purge(*seen, &note(*force)).await, Reply::Written),
            Self::Get(record) => reply(store.get(*record).await, |found| Reply::Found(Box::new(found))),
            Self::Reap => reply(store.reap(Self::REAP_ROWS).await, Reply::Reaped),
        }
    }
}

fn reply<T>(result: Result<T, StoreError>, wrap: impl FnOnce(T) -> Reply) -> Reply {
    result.map_or_else(|error| Reply::Failed(error.to_string()), wrap)
}
