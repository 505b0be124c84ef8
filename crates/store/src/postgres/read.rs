//! The verbs that only read; each sees one snapshot.

use oncegate_core::{
    Census, Filter, IdempotencyKey, Record, RecordDigest, RecordId, RecordPrefix, Scope, StateName, StoreError,
    StoredResponse,
};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{
    batch::corrupt,
    row,
    value::{At, Span, digest, uuid},
    verb::{Parameter, Statement, Told, Verb},
};

// === types ===

/// The verb *get*.
pub(super) struct Get(pub(super) RecordDigest);

// === get ===

impl Verb for Get {
    type Answer = Option<(Record, Option<StoredResponse>)>;
    const SQL: &'static str = include_str!("get.sql");
    const NEEDS_CALLER: bool = true;

    fn record(&self) -> RecordDigest {
        self.0
    }

    fn recognises_itself(&self) -> bool {
        true
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let records: Vec<_> = batch.iter().map(|get| uuid(get.0)).collect();
        vec![(Box::new(records), Type::UUID_ARRAY)]
    }

    fn read(&self, row: &Row) -> Result<Told<Self::Answer>, StoreError> {
        let state: Option<&str> = row.try_get("state").map_err(|error| corrupt(self.0, "state").with_source(error))?;
        if state.is_none() {
            return Ok(Told::Answer(None));
        }
        let record = row::record(self.0, row)?;
        let response = row::response(&record, row)?;
        Ok(Told::Answer(Some((record, response))))
    }
}

// === list ===

/// The statement of the verb *list*.
pub(super) fn list(filter: &Filter, offset: Span) -> Statement<'_> {
    let one = |scope: &Scope, key: &IdempotencyKey| RecordId::new(scope.clone(), key.clone()).digest();
    let named = filter.scope.as_ref().zip(filter.key.as_ref()).map(|(scope, key)| RecordPrefix::from(one(scope, key)));
    // Both may be given; then the specification, which looks at each row once more, leaves out what is not of both.
    let range = named.or(filter.prefix);
    let rows = i64::try_from(filter.rows()).unwrap_or(i64::MAX);
    Statement {
        sql: if range.is_none() && is_open(filter) { include_str!("list_open.sql") } else { include_str!("list.sql") },
        is_planned: false,
        parameters: vec![
            (Box::new(offset), Type::INTERVAL),
            (Box::new(filter.state.map(StateName::as_str)), Type::TEXT),
            (Box::new(filter.abandoned), Type::BOOL),
            (Box::new(filter.scope.as_ref().map(Scope::as_str)), Type::TEXT),
            (Box::new(filter.scope_part.as_deref()), Type::TEXT),
            (Box::new(filter.key.as_ref().map(IdempotencyKey::as_str)), Type::TEXT),
            (Box::new(range.map(|range| uuid(range.first()))), Type::UUID),
            (Box::new(range.map(|range| uuid(range.last()))), Type::UUID),
            (Box::new(rows), Type::INT8),
        ],
    }
}

/// Whether only records that are not completed belong to the list.
fn is_open(filter: &Filter) -> bool {
    match filter.state {
        Some(StateName::InFlight | StateName::Unknown) => true,
        Some(StateName::Completed) | None => filter.abandoned,
    }
}

/// The records of its rows.
pub(super) fn listed(filter: &Filter, rows: &[Row]) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        let record = digest(row.try_get::<_, Uuid>("record").map_err(unreadable)?);
        let At(now) = row.try_get("now").map_err(unreadable)?;
        records.extend(Some(row::record(record, row)?).filter(|record| filter.matches(record, now)));
    }
    Ok(records)
}

// === census ===

/// Up to this size of the table, some tens of thousands of records, completed ones are counted.
const COUNTED_BYTES_MAX: i64 = 16 << 20;

/// The statement of the verb *census*.
pub(super) fn census(offset: Span) -> Statement<'static> {
    let parameters: Vec<Parameter<'_>> =
        vec![(Box::new(offset), Type::INTERVAL), (Box::new(COUNTED_BYTES_MAX), Type::INT8)];
    Statement { sql: include_str!("census.sql"), is_planned: false, parameters }
}

/// The counts of its row, and how many bytes the records take.
pub(super) fn counted(row: &Row) -> Result<(Census, u64), StoreError> {
    let count = |name| number(row, name);
    let census = Census {
        in_flight: count("in_flight")?,
        abandoned: count("abandoned")?,
        completed: count("completed")?,
        unknown: count("unknown")?,
    };
    Ok((census, count("bytes")?))
}

/// A count.
pub(super) fn number<N: TryFrom<i64>>(row: &Row, name: &str) -> Result<N, StoreError> {
    let number: i64 = row.try_get(name).map_err(unreadable)?;
    N::try_from(number)
        .map_err(|_| StoreError::new(oncegate_core::ErrorKind::Corrupt, format!("{number} {name} records")))
}

pub(super) fn unreadable(error: tokio_postgres::Error) -> StoreError {
    StoreError::new(oncegate_core::ErrorKind::Corrupt, "a row of PostgreSQL cannot be read").with_source(error)
}
