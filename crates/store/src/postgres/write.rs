//! The verbs that write under a lease.

use std::time::Duration;

use oncegate_core::{DoubtReason, Fence, Lease, Owner, RecordDigest, StoreError, StoredResponse, Written};
use tokio_postgres::{Row, types::Type};

use super::{
    batch::corrupt,
    claim::owner,
    row,
    value::{Span, uuid},
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

/// The verb *doubt*.
pub(super) struct Doubt {
    pub(super) guard: Guard,
    pub(super) reason: DoubtReason,
}

/// The verb *release*.
pub(super) struct Release {
    pub(super) guard: Guard,
}

/// The verb *withdraw*.
pub(super) struct Withdraw {
    pub(super) record: RecordDigest,
    pub(super) owner: Owner,
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
    type Answer = Written;
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

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Verb for Doubt {
    type Answer = Written;
    const SQL: &'static str = include_str!("doubt.sql");

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn recognises_itself(&self) -> bool {
        false
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = Guard::columns(batch.iter().map(|doubt| doubt.guard));
        let reasons: Vec<_> = batch.iter().map(|doubt| doubt.reason.as_str()).collect();
        columns.push((Box::new(reasons), Type::TEXT_ARRAY));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Verb for Release {
    type Answer = Written;
    const SQL: &'static str = include_str!("release.sql");

    fn record(&self) -> RecordDigest {
        self.guard.record
    }

    fn recognises_itself(&self) -> bool {
        false
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        Guard::columns(batch.iter().map(|release| release.guard))
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}

impl Verb for Withdraw {
    type Answer = Written;
    const SQL: &'static str = include_str!("withdraw.sql");

    fn record(&self) -> RecordDigest {
        self.record
    }

    fn recognises_itself(&self) -> bool {
        false
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let records: Vec<_> = batch.iter().map(|withdraw| uuid(withdraw.record)).collect();
        let owners: Vec<_> = batch.iter().map(|withdraw| owner(Some(withdraw.owner))).collect();
        vec![(Box::new(records), Type::UUID_ARRAY), (Box::new(owners), Type::UUID_ARRAY)]
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        written(self.record(), row)
    }
}
