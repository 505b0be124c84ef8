//! Records in PostgreSQL 14 or newer: for many processes on many machines.
//!
//! *Group commit*: while one batch of verbs is on the wire, others queue up, and what has queued up is sent as one
//! transaction with one statement per verb, on one of a few connections (*lanes*). There is no timer: a verb that
//! arrives alone takes one round trip, alone.
//!
//! *Nothing waits for a foreign transaction*: claims take a try-lock on the record before they touch it, and writes
//! pass over rows that somebody else has locked and ask again. A transaction that holds one record open delays no
//! other record.
//!
//! No connection is held while a handler runs, nothing is kept in a session, and every transaction names its
//! isolation, so that it works behind PgBouncer in transaction mode and under any default of the server.
//!
//! ```no_run
//! # async fn claim(request: &oncegate_core::ClaimRequest) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::Store;
//! use oncegate_store::postgres::{Options, PostgresStore};
//!
//! let store = PostgresStore::open(&"postgres://app@localhost/shop".parse()?, Options::default());
//! let claim = store.claim(request).await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod batch;
mod claim;
mod desk;
mod error;
mod front;
mod lane;
mod link;
mod migrate;
mod operator;
mod options;
#[cfg(feature = "redis")]
mod outbox;
mod read;
mod row;
mod suspicion;
mod value;
mod verb;
mod write;
#[doc(hidden)]
pub mod yardstick;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, ErrorKind, Filter, Lease, Note, Owner, Reaped, Record,
    RecordDigest, Seen, Store, StoreError, StoredResponse, Suspicion, Written,
};

pub(crate) use self::claim::Judged;
#[doc(hidden)]
pub use self::options::ClockOffset;
pub use self::{
    address::{Address, AddressError, ConnectError},
    front::{FrontRegister, RegisteredFront, Wanted},
    migrate::{MigrateError, Migrator},
    options::Options,
};
use self::{
    desk::Desk,
    lane::{BEGIN, Lane},
    write::Completion,
};
#[cfg(feature = "redis")]
pub(crate) use self::{
    outbox::{Applied, Drawn, Known, is_poison, is_refused},
    write::Times,
};
#[cfg(feature = "redis")]
use crate::entry::Entry;
use crate::observer::Event;

// === types ===

/// Records in a PostgreSQL database.
///
/// # Errors of its verbs
/// A full queue is [`Overloaded`](oncegate_core::ErrorKind::Overloaded), a full disk
/// [`Full`](oncegate_core::ErrorKind::Full): nothing was applied. A server that cannot be reached, does not answer
/// or refuses is [`Unavailable`](oncegate_core::ErrorKind::Unavailable). One verb that fails fails alone, whatever
/// was sent together with it.
///
/// # A lost connection
/// What was sent is asked again on a new connection, and what is found there tells what became of it: a verb that was
/// applied before its answer was lost is *done*. Claims and completions need their owner for it; without one it is
/// open whether they were applied. A commit is never cancelled, and a withdrawal waits for a claim that the server is
/// still committing. Of several hosts in the address the one is found that can be written to, also after a failover.
///
/// # Cancellation
/// A claim or a read whose future is dropped before it is sent is not carried out. Every other verb is, and so is a
/// claim that was sent; [`withdraw`](Store::withdraw) it: verbs of one record are sent in the order in which they
/// were first polled.
///
/// # Drop
/// What is queued is still carried out, by tasks that end with it.
#[derive(Debug)]
pub struct PostgresStore {
    lanes: Vec<Lane>,
    /// Of the reads that a claim begins with: beside the lanes, where they would wait for what is being committed.
    #[cfg(feature = "redis")]
    reader: Lane,
    desk: Desk,
    options: Options,
}

// === impl PostgresStore ===

impl PostgresStore {
    /// A store at this address. It connects when it is first asked; the schema must be there by then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn open(address: &Address, options: Options) -> Self {
        let address = Arc::new(address.clone());
        let lanes = (0..options.lanes.max(1)).map(|_| Lane::start(Arc::clone(&address), options.clone())).collect();
        Self {
            lanes,
            #[cfg(feature = "redis")]
            reader: Lane::start(Arc::clone(&address), options.clone()),
            desk: Desk::new(address, &options),
            options,
        }
    }

    /// The lane that all verbs of this record take. Each has a range of digests, and so its own part of the index:
    /// what one session of the server has just read or written there, the others have no use for.
    fn lane(&self, record: RecordDigest) -> &Lane {
        let [first, ..] = *record.as_bytes();
        &self.lanes[usize::from(first) * self.lanes.len() / 256]
    }

    /// As [`Store::claim`], with the fence of what was judged.
    pub(crate) async fn judge(&self, request: &ClaimRequest) -> Result<Judged, StoreError> {
        self.lane(request.id.digest()).ask(claim::Attempt::new(request.clone())).await
    }

    /// As [`Store::complete`], with the times of what was completed.
    pub(crate) async fn complete_timed(
        &self,
        lease: &Lease,
        response: &StoredResponse,
    ) -> Result<Completion, StoreError> {
        self.lane(lease.record).ask(write::Complete::new(lease.into(), response)).await
    }
}

/// What the store with a front asks besides.
#[cfg(feature = "redis")]
impl PostgresStore {
    /// Whether the key is known; if not, a fence for the claim that a front is to take.
    pub(crate) async fn draw(&self, record: RecordDigest) -> Result<Drawn, StoreError> {
        self.reader.ask(outbox::Draw(record)).await
    }

    /// Writes what a front has acknowledged.
    pub(crate) async fn apply(&self, entry: Entry) -> Result<Applied, StoreError> {
        self.lane(entry.record).ask(outbox::Apply::new(entry)).await
    }

    /// How far the store's clock is ahead of the server's.
    pub(crate) fn clock_offset(&self) -> Duration {
        self.options.clock_offset.get()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match self.judge(request).await? {
            Judged::Here { claim, .. } => Ok(claim),
            Judged::Quiet => Err(Judged::quiet()),
            Judged::Elsewhere => {
                let text =
                    "new keys are claimed by way of the front that stands before this store: open it with that front";
                Err(StoreError::new(ErrorKind::Unavailable, text).unapplied())
            }
        }
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.lane(lease.record).ask(write::Extend { guard: lease.into(), length }).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        Ok(self.complete_timed(lease, response).await?.written)
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.lane(lease.record).ask(write::Doubt::new(lease.into(), reason)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.lane(lease.record).ask(write::Release::new(lease.into())).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        self.lane(record).ask(write::Withdraw::new(record, owner)).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.lane(record).ask(read::Get(record)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let rows = self.desk.ask(BEGIN, read::list(filter, self.options.clock_offset.span())).await?;
        read::listed(filter, &rows)
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.lane(seen.record).ask(operator::Resolve::new(seen, response, note)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.lane(seen.record).ask(operator::Purge::new(seen, note)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = self.desk.ask(BEGIN, operator::audit(rows)).await?;
        rows.iter().map(operator::entry).collect()
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        let mut sum = Reaped::default();
        for _ in 0..desk::PASSES_MAX {
            let left = rows.saturating_sub(sum.expired.max(sum.doubted));
            if left == 0 {
                break;
            }
            let answer = self.desk.ask(BEGIN, desk::reap(left, self.options.clock_offset.span())).await;
            let (reaped, is_more) = match answer {
                Ok(rows) => rows.first().map_or(Ok((Reaped::default(), false)), desk::reaped)?,
                // What the passes before it did is done; the next call will meet the error again.
                Err(_) if sum != Reaped::default() => break,
                Err(error) => return Err(error),
            };
            sum.expired += reaped.expired;
            sum.doubted += reaped.doubted;
            if !is_more {
                break;
            }
        }
        Ok(sum)
    }

    async fn census(&self) -> Result<Census, StoreError> {
        let answer = self.desk.ask(BEGIN, read::census(self.options.clock_offset.span())).await?;
        let (census, bytes) = answer.first().map_or(Ok(Default::default()), read::counted)?;
        self.options.observer.observe(&Event::Size { bytes });
        Ok(census)
    }

    async fn suspect(&self, found: Vec<Suspicion>, window: Duration) -> Result<Vec<Suspicion>, StoreError> {
        let statement = suspicion::suspect(&found, window, self.options.clock_offset.span());
        let rows = self.desk.ask(BEGIN, statement).await?;
        rows.iter().map(suspicion::suspicion).collect()
    }

    async fn suspected(&self, rows: usize) -> Result<Vec<Suspicion>, StoreError> {
        let rows = self.desk.ask(BEGIN, suspicion::suspected(rows)).await?;
        rows.iter().map(suspicion::suspicion).collect()
    }
}
