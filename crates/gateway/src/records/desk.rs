//! What operators ask of a store, by command or through the admin listener.

use std::{fmt, sync::Arc, time::Duration};

use oncegate_core::{
    AuditEntry, Clock as _, ErrorKind, Filter, Note, OperatorVerb, Record, RecordDigest, RecordPrefix, Seen, StateName,
    Store, StoreError, StoredResponse, Suspicion, SystemClock, Timestamp, Written,
};

use super::table;

// === types ===

/// A store, and how long it may take.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) timeout: Duration,
}

/// What is to be done to a record.
#[derive(Debug)]
pub(crate) enum Ruling {
    Resolve(StoredResponse),
    Release,
    Purge,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Ruled {
    Done,
    Refused(Box<Refusal>),
}

/// Why nothing was changed: what the record is now.
#[derive(Debug)]
pub(crate) struct Refusal {
    verb: OperatorVerb,
    seen: Seen,
    /// `None`: it is absent.
    pub(crate) now: Option<Record>,
}

// === impl Desk ===

impl Desk {
    /// See [`Store::list`].
    pub(crate) async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.within("list", self.store.list(filter)).await
    }

    /// Records whose digest begins so.
    pub(crate) async fn begin_with(&self, prefix: RecordPrefix) -> Result<Vec<Record>, StoreError> {
        self.list(&Filter { prefix: Some(prefix), ..Filter::default() }).await
    }

    /// See [`Store::get`].
    pub(crate) async fn get(
        &self,
        record: RecordDigest,
    ) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.within("get", self.store.get(record)).await
    }

    /// See [`Store::audit`].
    pub(crate) async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.within("audit", self.store.audit(rows)).await
    }

    /// See [`Store::suspected`].
    pub(crate) async fn suspected(&self, rows: usize) -> Result<Vec<Suspicion>, StoreError> {
        self.within("suspected", self.store.suspected(rows)).await
    }

    /// Does it if the record is still as it was seen, and else says what the record is now.
    pub(crate) async fn rule(&self, seen: Seen, ruling: &Ruling, note: &Note) -> Result<Ruled, StoreError> {
        let verb = ruling.verb();
        if verb.leaves(seen.state) {
            let written = match ruling {
                Ruling::Resolve(response) => self.within("resolve", self.store.resolve(seen, response, note)).await?,
                Ruling::Release | Ruling::Purge => self.within("purge", self.store.purge(seen, note)).await?,
            };
            if written == Written::Done {
                return Ok(Ruled::Done);
            }
        }
        let now = self.get(seen.record).await?.map(|(record, _)| record);
        Ok(Ruled::Refused(Box::new(Refusal { verb, seen, now })))
    }

    async fn within<T>(&self, verb: &str, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || {
            let text = format!("the store did not answer {verb} within {:?}: look before you repeat it", self.timeout);
            StoreError::new(ErrorKind::Unavailable, text)
        };
        tokio::time::timeout(self.timeout, asked).await.unwrap_or_else(|_| Err(late()))
    }
}

// === impl Ruling ===

impl Ruling {
    pub(crate) fn verb(&self) -> OperatorVerb {
        match self {
            Self::Resolve(_) => OperatorVerb::Resolve,
            Self::Release => OperatorVerb::Release,
            Self::Purge => OperatorVerb::Purge,
        }
    }
}

// === impl Refusal ===

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, short) = (self.verb.as_str(), self.seen.record.short());
        let Some(record) = &self.now else {
            return write!(f, "record {short} is absent by now: it expired, or somebody deleted it (see the audit)");
        };
        let (state, fence) = (record.state.name(), record.fence);
        if fence != self.seen.fence {
            let seen = self.seen.fence;
            return write!(f, "record {short} has fence {fence}, not {seen}, and is {}: look again", state.as_str());
        }
        if !self.verb.leaves(state) {
            let instead = instead(state);
            return write!(
                f,
                "record {short} is {} (fence {fence}), and {verb} is not for it: {instead}",
                state.as_str()
            );
        }
        if state != self.seen.state {
            let seen = self.seen.state.as_str();
            return write!(f, "record {short} is {}, not {seen} (fence {fence}): look again", state.as_str());
        }
        match table::lease_until(record).filter(|_| !record.is_abandoned(now())) {
            Some(until) => write!(
                f,
                "record {short} is in flight under a live lease until {until} (fence {fence}), and its executor may \
                 still be at work: wait for the lease to end, or say force and accept that a repeat executes beside it"
            ),
            None => write!(f, "record {short} changed meanwhile (it is {}, fence {fence}): look again", state.as_str()),
        }
    }
}

fn instead(state: StateName) -> &'static str {
    match state {
        StateName::InFlight | StateName::Unknown => "release it, or resolve it",
        StateName::Completed => "purge deletes it, and then a repeat executes",
    }
}

/// The time as these stores have it, for what is said to people; stores judge by their own.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
