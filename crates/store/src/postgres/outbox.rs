//! What PostgreSQL is asked where a front takes claims: whether a key is known, and to have what the front has acknowledged.

use std::time::Duration;

use oncegate_core::{ErrorKind, Fence, RecordDigest, StoreError, Timestamp};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{
    batch::corrupt,
    claim::owner,
    row,
    value::{At, Span, gate, uuid},
    verb::{Parameter, Told, Unsettled, Verb},
};
use crate::entry::Entry;

// === types ===

/// Asks whether a key is known.
pub(super) struct Draw(pub(super) RecordDigest);

/// What it is told, and when, by the store's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    pub(crate) known: Known,
    pub(crate) now: Timestamp,
}

/// Whether a key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// No outbox is open: whoever claims it is told.
    Closed,
    /// It has a record, which a claim judges.
    There,
    /// It has none.
    New {
        /// For the claim that the front is to take.
        fence: Fence,
        /// Nothing up to this fence counts any more: it was deleted.
        buried: Option<Fence>,
        /// What the front must hold as well.
        sentinel: Uuid,
    },
}

/// Has PostgreSQL write what the front has acknowledged.
pub(super) struct Apply {
    entry: Entry,
    headers: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It is there.
    Done,
    /// Something newer is, or it is over: nothing was changed.
    Stale,
    /// Somebody else has it locked: it has to be asked again.
    Held,
    /// It could not be written, and was set aside.
    SetAside,
}

// === impl Draw ===

impl Verb for Draw {
    type Answer = Drawn;
    const SQL: &'static str = "SELECT * FROM oncegate.draw_batch($1, $2)";
    const IS_PLANNED: bool = true;
    const NEEDS_CALLER: bool = true;

    fn record(&self) -> RecordDigest {
        self.0
    }

    fn recognises_itself(&self) -> bool {
        // A fence that nobody has used is one that nobody misses.
        true
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let records: Vec<_> = batch.iter().map(|draw| uuid(draw.0)).collect();
        vec![(Box::new(records), Type::UUID_ARRAY)]
    }

    fn read(&self, row: &Row) -> Result<Told<Drawn>, StoreError> {
        let damaged = |what: &'static str| move |error: tokio_postgres::Error| corrupt(self.0, what).with_source(error);
        let known = match row.try_get("verdict").map_err(damaged("verdict"))? {
            "closed" => Known::Closed,
            "known" => Known::There,
            "new" => Known::New {
                fence: Fence::new(row.try_get("fence").map_err(damaged("fence"))?),
                buried: row.try_get::<_, Option<i64>>("buried").map_err(damaged("grave"))?.map(Fence::new),
                sentinel: row.try_get("sentinel").map_err(damaged("sentinel"))?,
            },
            _ => return Err(corrupt(self.0, "verdict")),
        };
        let At(now) = row.try_get("now").map_err(damaged("time"))?;
        Ok(Told::Answer(Drawn { known, now }))
    }
}

// === impl Apply ===

impl Apply {
    pub(super) fn new(entry: Entry) -> Self {
        let headers = entry.completion.as_ref().map(|completion| row::headers_json(&completion.response));
        Self { entry, headers }
    }

    fn state(&self) -> &'static str {
        if self.entry.completion.is_some() { "completed" } else { "in_flight" }
    }

    /// When the record's life ends.
    fn expires_at(&self) -> Option<At> {
        let Entry { claim, completion, .. } = &self.entry;
        let completed = completion.as_ref().map(|completion| completion.expires_at);
        let claimed = || claim.as_ref().map(|claim| claim.created_at.after(claim.request.policy.retention));
        completed.or_else(claimed).map(At)
    }
}

impl Verb for Apply {
    type Answer = Applied;
    const SQL: &'static str = "SELECT * FROM oncegate.apply_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
                               $14, $15, $16, $17, $18, $19, $20, $21)";
    const IS_PLANNED: bool = true;
    // Others must not wait for it.
    const PATIENCE: Duration = Duration::from_millis(200);

    fn record(&self) -> RecordDigest {
        self.entry.record
    }

    fn bytes(&self) -> usize {
        self.entry.held_bytes()
    }

    fn recognises_itself(&self) -> bool {
        // Twice is as good as once.
        true
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = state_columns(batch);
        columns.extend(claim_columns(batch));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Applied>, StoreError> {
        match row.try_get::<_, &str>("verdict") {
            Ok("done") => Ok(Told::Answer(Applied::Done)),
            Ok("stale") => Ok(Told::Answer(Applied::Stale)),
            Ok("collision") => {
                let text = format!("record {} belongs to another key", self.record());
                Err(StoreError::new(ErrorKind::Collision, text))
            }
            Ok(_) | Err(_) => Err(corrupt(self.record(), "verdict")),
        }
    }

    fn give_up(&self, _why: Unsettled) -> Result<Applied, StoreError> {
        Ok(Applied::Held)
    }
}

/// A column with a value for each entry.
fn column<'a, T>(batch: &[&'a Apply], kind: Type, value: impl Fn(&'a Apply) -> T) -> Parameter<'a>
where
    T: tokio_postgres::types::ToSql + Sync + Send + 'a,
{
    (Box::new(batch.iter().map(|apply| value(apply)).collect::<Vec<_>>()), kind)
}

fn state_columns<'a>(batch: &[&'a Apply]) -> Vec<Parameter<'a>> {
    let completion = |apply: &'a Apply| apply.entry.completion.as_ref();
    vec![
        column(batch, Type::UUID_ARRAY, |apply| uuid(apply.entry.record)),
        column(batch, Type::INT8_ARRAY, |apply| gate(apply.entry.record)),
        column(batch, Type::INT8_ARRAY, |apply| apply.entry.fence.get()),
        column(batch, Type::UUID_ARRAY, |apply| owner(apply.entry.owner)),
        column(batch, Type::TEXT_ARRAY, Apply::state),
        column(batch, Type::TIMESTAMPTZ_ARRAY, |apply| completion(apply).map(|done| At(done.completed_at))),
        column(batch, Type::TIMESTAMPTZ_ARRAY, Apply::expires_at),
        column(batch, Type::INT4_ARRAY, |apply| completion(apply).map(|done| i32::from(done.response.status))),
        column(batch, Type::TEXT_ARRAY, |apply| apply.headers.as_deref()),
        column(batch, Type::BYTEA_ARRAY, |apply| completion(apply).and_then(|done| done.response.body.as_deref())),
    ]
}

fn claim_columns<'a>(batch: &[&'a Apply]) -> Vec<Parameter<'a>> {
    let claim = |apply: &'a Apply| apply.entry.claim.as_ref();
    let request = |apply: &'a Apply| claim(apply).map(|claim| &claim.request);
    vec![
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.id.scope().as_str())),
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.id.key().as_str())),
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.operation.as_str())),
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.spelling.as_str())),
        column(batch, Type::BYTEA_ARRAY, |apply| request(apply).map(|request| request.fingerprint.as_bytes())),
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.policy.backend.as_str())),
        column(batch, Type::TEXT_ARRAY, |apply| request(apply).map(|request| request.policy.on_abandoned.as_str())),
        column(batch, Type::INTERVAL_ARRAY, |apply| request(apply).map(|request| Span(request.policy.lease))),
        column(batch, Type::INTERVAL_ARRAY, |apply| request(apply).map(|request| Span(request.policy.retention))),
        column(batch, Type::TIMESTAMPTZ_ARRAY, |apply| claim(apply).map(|claim| At(claim.created_at))),
    ]
}

// === what cannot be applied ===

/// Whether this entry fails for what it is, and will whenever it is tried.
pub(crate) fn is_poison(error: &StoreError) -> bool {
    // 22: data, 23: constraints, 54: limits.
    error.kind() == ErrorKind::Collision || is_of(error, &["22", "23", "54"])
}

/// Whether PostgreSQL was asked, and refuses this entry for a reason that does not pass by itself, as far as is known.
pub(crate) fn is_refused(error: &StoreError) -> bool {
    // 08: connections, 25: read only, 40: rolled back, 53: resources, 55 and 57: busy or stopping.
    code(error).is_some() && !is_of(error, &["08", "25", "40", "53", "55", "57"])
}

fn is_of(error: &StoreError, classes: &[&str]) -> bool {
    code(error).is_some_and(|code| classes.iter().any(|class| code.code().starts_with(class)))
}

fn code(error: &StoreError) -> Option<&tokio_postgres::error::SqlState> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::sync::Arc<tokio_postgres::Error>>()?.code()
}
