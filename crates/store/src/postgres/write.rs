//! The verbs that write under a lease.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use oncegate_core::{DoubtReason, Fence, Lease, Owner, RecordDigest, StoreError, StoredResponse, Timestamp, Written};
use tokio_postgres::{Row, types::Type};

use super::{
    batch::corrupt,
    claim::owner,
    row,
    value::{At, Span, gate, uuid},
    verb::{Parameter, Told, Verb},
};

// === types ===

/// What a write after the claim names, beside the states that it may leave.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    record: RecordDigest,
    fence: Fence,
    /// `None`: the lease has none, and the fence alone decides.
    owner: Option<Owner>,
}

/// The verb *extend*.
pub(super) struct Extend {
    pub(super) guard: Guard,
    pub(super) length: Duration,
}

/// The verb *complete*.
pub(super) struct Complete {
    guard: Guard,
    response: StoredResponse,
    headers: String,
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) written: Written,
    /// Of what was completed; `None` if nothing was.
    pub(crate) times: Option<Times>,
}

/// The times of a completed record, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) completed_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// What is left of its life.
    pub(crate) expires_in: Duration,
}

impl Times {
    /// Whether it was completed by the very statement that said so, and not before.
    #[cfg(feature = "redis")]
    pub(crate) fn are_of_now(&self) -> bool {
        self.completed_at.after(self.expires_in) == self.expires_at
    }
}

/// The verb *doubt*.
pub(super) struct Doubt {
    guard: Guard,
    reason: DoubtReason,
    /// It was sent before, on a connection that was lost: what it finds may be its own work.
    is_again: bool,
}

/// The verb *release*.
pub(super) struct Release {
    guard: Guard,
    /// As in [`Doubt`].
    is_again: bool,
}

/// The verb *withdraw*.
pub(super) struct Withdraw {
    record: RecordDigest,
    owner: Owner,
    /// Whether an earlier statement has had the record's lock, so that no claim from before it is still at work.
    is_sure: AtomicBool,
}

// === impl Guard ===

impl From<&Lease> for Guard {
    fn from(lease: &Lease) -> Self {
        Self { record: lease.record, fence: lease.fence, owner: lease.owner }
    }
}

impl Guard {
    /// The columns that every guarded statement begins with.
    fn columns<'a>(guards: impl Iterator<Item = Self> + Clone) -> Vec<Parameter<'a>> {
        let records: Vec<_> = guards.clone().map(|guard| uuid(guard.record)).collect();
        let fences: Vec<_> = guards.clone().map(|guard| guard.fence.get()).collect();
        let owners: Vec<_> = guards.map(|guard| owner(guard.owner)).collect();
        vec![
            (Box::new(records), Type::UUID_ARRAY),
            (Box::new(fences), Type::INT8_ARRAY),
            (Box::new(owners), Type::UUID_ARRAY),
        ]
    }
}

/// A column of truth values.
pub(super) fn flags<'a>(flags: impl Iterator<Item = bool>) -> Parameter<'a> {
    (Box::new(flags.collect::<Vec<_>>()), Type::BOOL_ARRAY)
}

/// What a guarded statement says of one record.
pub(super) fn written(record: RecordDigest, row: &Row) -> Result<Told<Written>, StoreError> {
    match row.try_get::<_, &str>("verdict") {
        Ok("done") => Ok(Told::Answer(Written::Done)),
        Ok("stale") => Ok(Told::Answer(Written::Stale)),
        Ok(_) | Err(_) => Err(corrupt(record, "verdict")),
    }
}

// === the verbs ===

impl Verb for Extend {
    type Answer = Written;
    const SQL: &'static str = "SELECT * FROM oncegate.extend_batch($1, $2, $3, $4, $5)";
    const IS_PLANNED: bool = true;

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn recognises_itself(&self) -> bool {
        // Twice is as good as once.
        true
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = Guard::columns(batch.iter().map(|extend| extend.guard));
        let lengths: Vec<_> = batch.iter().map(|extend| Span(extend.length)).collect();
        columns.push((Box::new(lengths), Type::INTERVAL_ARRAY));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Complete {
    pub(super) fn new(guard: Guard, response: &StoredResponse) -> Self {
        Self { guard, response: response.clone(), headers: row::headers_json(response) }
    }
}

impl Verb for Complete {
    type Answer = Completion;
    const SQL: &'static str = "SELECT * FROM oncegate.complete_batch($1, $2, $3, $4, $5, $6, $7)";
    const IS_PLANNED: bool = true;

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn bytes(&self) -> usize {
        self.response.held_bytes()
    }

    fn recognises_itself(&self) -> bool {
        self.guard.owner.is_some()
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = Guard::columns(batch.iter().map(|complete| complete.guard));
        let statuses: Vec<_> = batch.iter().map(|complete| i32::from(complete.response.status)).collect();
        let headers: Vec<_> = batch.iter().map(|complete| complete.headers.as_str()).collect();
        let bodies: Vec<_> = batch.iter().map(|complete| complete.response.body.as_deref()).collect();
        columns.push((Box::new(statuses), Type::INT4_ARRAY));
        columns.push((Box::new(headers), Type::TEXT_ARRAY));
        columns.push((Box::new(bodies), Type::BYTEA_ARRAY));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Completion>, StoreError> {
        let Told::Answer(written) = written(self.record(), row)? else { return Ok(Told::Raced) };
        let time = |name: &str| {
            let time = row.try_get::<_, Option<At>>(name);
            time.map_err(|error| corrupt(self.record(), name).with_source(error))
        };
        let times = time("completed_at")?.zip(time("expires_at")?).zip(time("now")?);
        let times = times.filter(|_| written == Written::Done).map(|((completed_at, expires_at), now)| Times {
            completed_at: completed_at.0,
            expires_at: expires_at.0,
            expires_in: expires_at.0.since(now.0),
        });
        Ok(Told::Answer(Completion { written, times }))
    }
}

impl Doubt {
    pub(super) fn new(guard: Guard, reason: &DoubtReason) -> Self {
        Self { guard, reason: reason.clone(), is_again: false }
    }
}

impl Verb for Doubt {
    type Answer = Written;
    const SQL: &'static str = include_str!("doubt.sql");

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn recognises_itself(&self) -> bool {
        true
    }

    fn lost(&mut self) {
        self.is_again = true;
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = Guard::columns(batch.iter().map(|doubt| doubt.guard));
        let reasons: Vec<_> = batch.iter().map(|doubt| doubt.reason.as_str()).collect();
        columns.push((Box::new(reasons), Type::TEXT_ARRAY));
        columns.push(flags(batch.iter().map(|doubt| doubt.is_again)));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Release {
    pub(super) fn new(guard: Guard) -> Self {
        Self { guard, is_again: false }
    }
}

impl Verb for Release {
    type Answer = Written;
    const SQL: &'static str = include_str!("release.sql");

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn recognises_itself(&self) -> bool {
        true
    }

    fn lost(&mut self) {
        self.is_again = true;
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = Guard::columns(batch.iter().map(|release| release.guard));
        columns.push(flags(batch.iter().map(|release| release.is_again)));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Withdraw {
    pub(super) fn new(record: RecordDigest, owner: Owner) -> Self {
        Self { record, owner, is_sure: AtomicBool::new(false) }
    }
}

impl Verb for Withdraw {
    type Answer = Written;
    const SQL: &'static str = include_str!("withdraw.sql");

    fn record(&self) -> RecordDigest {
        self.record
    }

    fn recognises_itself(&self) -> bool {
        // What is withdrawn already has nothing left to withdraw.
        true
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let records: Vec<_> = batch.iter().map(|withdraw| uuid(withdraw.record)).collect();
        let owners: Vec<_> = batch.iter().map(|withdraw| owner(Some(withdraw.owner))).collect();
        let gates: Vec<_> = batch.iter().map(|withdraw| gate(withdraw.record)).collect();
        vec![
            (Box::new(records), Type::UUID_ARRAY),
            (Box::new(gates), Type::INT8_ARRAY),
            (Box::new(owners), Type::UUID_ARRAY),
            flags(batch.iter().map(|withdraw| withdraw.is_sure.load(Ordering::Relaxed))),
        ]
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        if let Ok("free") = row.try_get("verdict") {
            self.is_sure.store(true, Ordering::Relaxed);
            return Ok(Told::Raced);
        }
        written(self.record(), row)
    }
}
