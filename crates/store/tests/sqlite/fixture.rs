//! A file in a directory of its own, and what is done to it.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Lease, ManualClock, Note, Operation, Owner,
    Policy, RecordId, Scope, Seen, StateName, Store, StoredResponse, Written,
};
use oncegate_store::sqlite::{Options, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

/// A place for one file of records, under a clock that stands still.
pub(crate) struct Place {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) directory: TempDir,
}

impl Place {
    pub(crate) fn fresh() -> Self {
        let directory = tempfile::tempdir().expect("temporary directories can be made");
        Self { clock: Arc::default(), directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("records.db")
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.directory.path().join("records.db-wal")
    }

    /// Options under which nothing gives up before the test does.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::with_clock(self.clock.clone());
        options.busy_timeout = Duration::from_secs(60);
        options
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.open_with(self.options())
    }

    pub(crate) fn open_with(&self, options: Options) -> SqliteStore {
        SqliteStore::open(self.path(), options).expect("the file is new, or ours")
    }

    /// What another process, or a person with a shell, has.
    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("the file exists");
        connection.busy_timeout(Duration::from_secs(60)).expect("any time-out is allowed");
        connection
    }

    /// How many transactions the WAL holds: frames that end one, under its present salt.
    pub(crate) fn commits(&self) -> usize {
        const HEADER: usize = 32;
        const FRAME: usize = 24 + 4096;
        let wal = fs::read(self.wal()).expect("an open store keeps a WAL");
        let Some((header, frames)) = wal.split_at_checked(HEADER) else { return 0 };
        let is_commit = |frame: &&[u8]| frame[8..16] == header[16..24] && frame[4..8] != [0; 4];
        frames.chunks_exact(FRAME).filter(is_commit).count()
    }
}

/// Holds the file's write lock, so that verbs queue up, until it is dropped.
pub(crate) struct Held(Connection);

impl Held {
    pub(crate) fn of(place: &Place) -> Self {
        let connection = place.connect();
        connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
        Self(connection)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").expect("a transaction is open");
    }
}

/// Puts a verb into the queue: its first poll.
pub(crate) fn queue<F: Future + Unpin>(verb: &mut F) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(std::pin::Pin::new(verb).poll(&mut context), Poll::Pending), "the file's lock is held");
}

pub(crate) fn request(key: &str) -> ClaimRequest {
    ClaimRequest {
        id: RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).expect("the tests' keys are keys")),
        fingerprint: Fingerprint::from_bytes(&[7]).expect("one byte is enough"),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/payments"),
        spelling: KeySpelling::Bare,
        policy: Arc::new(Policy::gateway(Backend::Plain)),
    }
}

pub(crate) fn response(body: &[u8]) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"text/plain"))];
    StoredResponse { status: 201, headers, body: Some(Bytes::copy_from_slice(body)) }
}

pub(crate) async fn acquire(store: &SqliteStore, request: &ClaimRequest) -> Lease {
    match store.claim(request).await.expect("the store works") {
        Claim::Acquired(lease) => lease,
        other => panic!("not acquired but {other:?}"),
    }
}

/// Deletes the completed record of this lease, as an operator does.
pub(crate) async fn purge(store: &SqliteStore, lease: &Lease) {
    let seen = Seen { record: lease.record, fence: lease.fence, state: StateName::Completed };
    let note = Note::new("ada", "the test says so").expect("both are short text");
    assert_eq!(store.purge(seen, &note).await.expect("the store works"), Written::Done);
}
