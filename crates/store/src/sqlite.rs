//! Records in one SQLite file: the default store, nothing to set up.
//!
//! WAL, `synchronous = FULL`, and *group commit*: one writer thread takes whatever verbs have queued
//! up, applies them in one `BEGIN IMMEDIATE` transaction, commits once and answers them all. There is
//! no timer: a verb that arrives alone is committed alone, at once. Reads have a thread and a
//! connection of their own and never wait for a commit.
//!
//! The file may be shared by several stores and processes on one machine, on a local disk. It does not
//! shrink: what was reaped makes room for new records (`VACUUM` gives it back).
//!
//! ```
//! # async fn claim(request: &oncegate_core::ClaimRequest) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::Store;
//! use oncegate_store::sqlite::{Options, SqliteStore};
//!
//! let store = SqliteStore::open("oncegate.db", Options::default())?;
//! let claim = store.claim(request).await?;
//! # Ok(())
//! # }
//! ```

mod claim;
mod error;
mod migrate;
mod open;
mod operator;
mod options;
#[cfg(test)]
mod plans;
mod queue;
mod read;
mod row;
mod session;
mod statements;
mod suspicion;
mod worker;
mod write;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, Filter, Lease, Note, Owner, Reaped, Record, RecordDigest,
    Seen, Store, StoreError, StoredResponse, Suspicion, Written,
};
use rusqlite::TransactionBehavior;

pub use self::{
    open::OpenError,
    options::{Options, Synchronous},
};
use self::{queue::Queue, worker::Worker};
use crate::observer::{Event, Observer};

// === types ===

/// Records in one SQLite file.
///
/// # Errors of its verbs
/// A full disk is [`Full`](oncegate_core::ErrorKind::Full), a full queue
/// [`Overloaded`](oncegate_core::ErrorKind::Overloaded): nothing was applied. A file that another
/// process keeps locked, and a disk that fails, are
/// [`Unavailable`](oncegate_core::ErrorKind::Unavailable). One verb that fails fails alone, whatever
/// was committed together with it.
///
/// # Cancellation
/// A claim or a read whose future is dropped before its turn is not carried out. Every other verb is,
/// and so is a claim whose turn had come; [`withdraw`](Store::withdraw) it: verbs of one store are
/// carried out in the order in which they were first polled. The store itself undoes no claim, since
/// the same claim may have been sent again and answered meanwhile.
///
/// # Drop
/// Blocks until everything queued is committed and both threads have ended; the last store on a file
/// leaves it without a WAL.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    // Fields drop in this order: the writer is the last to close the file and checkpoints it.
    reader: Queue,
    writer: Queue,
    look: suspicion::Look,
    observer: Arc<dyn Observer>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens the file, creates it if there is none, and brings an older schema up to date.
    ///
    /// A new file is readable by its owner only, since responses may hold what only their callers may see.
    /// Blocks while it reads the disk, and for up to [`Options::busy_timeout`] while another process
    /// migrates the same file.
    ///
    /// # Errors
    /// See [`OpenError`]. A file that is refused is left as it was.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = open::absolute(path.as_ref())?;
        let writer = open::writer(&path, &options)?;
        let reader = open::reader(&path, &options)?;
        let worker = |connection, behavior| Worker::new(connection, path.clone(), behavior, &options);
        let reader = worker(reader, TransactionBehavior::Deferred).alone();
        let writer = worker(writer, TransactionBehavior::Immediate);
        let start = |name, worker| Queue::start(name, options.queue_max, worker).map_err(OpenError::Thread);
        let (reader, writer) = (start("oncegate-reader", reader)?, start("oncegate-writer", writer)?);
        Ok(Self { path, reader, writer, look: suspicion::Look::new(options.clock), observer: options.observer })
    }

    /// How many migrations [`open`](Self::open) would apply to a file that is there. Changes nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn pending(path: impl AsRef<Path>) -> Result<usize, OpenError> {
        open::pending(&open::absolute(path.as_ref())?, &Options::default())
    }

    /// The file's absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.writer.ask(claim::Attempt(request.clone())).await
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.writer.ask(write::Extend { guard: lease.into(), length }).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        self.writer.ask(write::Complete::new(lease.into(), response)).await
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.writer.ask(write::Doubt { guard: lease.into(), reason: reason.clone() }).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.writer.ask(write::Release { guard: lease.into() }).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        self.writer.ask(write::Withdraw { record, owner }).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.reader.ask(read::Get(record)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.reader.ask(read::List(filter.clone())).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.writer.ask(operator::Resolve::new(seen, response, note)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.writer.ask(operator::Purge { seen, note: note.clone() }).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.reader.ask(operator::Audit { rows }).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        self.writer.ask(write::Reap { rows }).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        let (census, bytes) = self.reader.ask(read::Count).await?;
        self.observer.observe(&Event::Size { bytes });
        Ok(census)
    }

    /// Each process looks once a minute: those of one machine that share a file are few.
    async fn suspect(&self, mut found: Vec<Suspicion>, window: Duration) -> Result<Vec<Suspicion>, StoreError> {
        if self.look.is_due() {
            found.extend(self.reader.ask(suspicion::Pairs { window }).await?);
        }
        if found.is_empty() {
            return Ok(found);
        }
        self.writer.ask(suspicion::NotePairs(found)).await
    }

    async fn suspected(&self, rows: usize) -> Result<Vec<Suspicion>, StoreError> {
        self.reader.ask(suspicion::Noted { rows }).await
    }
}
