//! suspect and suspected: one request under two keys.

use std::time::Duration;

use oncegate_core::{ErrorKind, Filter, Operation, StoreError, Suspicion};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

use super::{
    value::{At, Span, digest, uuid},
    verb::{Parameter, Statement},
};

/// The statement of the verb *suspect*.
pub(super) fn suspect(found: &[Suspicion], window: Duration, offset: Span) -> Statement<'_> {
    let records: Vec<_> = found.iter().map(|each| uuid(each.record)).collect();
    let earlier: Vec<_> = found.iter().map(|each| uuid(each.earlier)).collect();
    let operations: Vec<_> = found.iter().map(|each| each.operation.as_str()).collect();
    let anonymous: Vec<_> = found.iter().map(|each| each.is_anonymous).collect();
    let created: Vec<_> = found.iter().map(|each| At(each.created_at)).collect();
    let before: Vec<_> = found.iter().map(|each| At(each.earlier_at)).collect();
    let parameters: Vec<Parameter<'_>> = vec![
        (Box::new(offset), Type::INTERVAL),
        (Box::new(Span(window)), Type::INTERVAL),
        (Box::new(records), Type::UUID_ARRAY),
        (Box::new(earlier), Type::UUID_ARRAY),
        (Box::new(operations), Type::TEXT_ARRAY),
        (Box::new(anonymous), Type::BOOL_ARRAY),
        (Box::new(created), Type::TIMESTAMPTZ_ARRAY),
        (Box::new(before), Type::TIMESTAMPTZ_ARRAY),
        (Box::new(number(Suspicion::NOTED_MAX)), Type::INT8),
        (Box::new(number(Suspicion::KEPT_MAX)), Type::INT8),
    ];
    Statement { sql: include_str!("suspect.sql"), is_planned: false, parameters }
}

/// The statement of the verb *suspected*.
pub(super) fn suspected(rows: usize) -> Statement<'static> {
    let parameters: Vec<Parameter<'_>> = vec![(Box::new(number(Filter::allowed(rows))), Type::INT8)];
    Statement { sql: include_str!("suspected.sql"), is_planned: false, parameters }
}

/// What one of their rows says.
pub(super) fn suspicion(row: &Row) -> Result<Suspicion, StoreError> {
    let (At(created_at), At(earlier_at)) = (get(row, "created_at")?, get(row, "earlier_at")?);
    Ok(Suspicion {
        record: digest(get::<Uuid>(row, "record")?),
        earlier: digest(get::<Uuid>(row, "earlier")?),
        operation: Operation::from_text(get(row, "operation")?),
        is_anonymous: get(row, "is_anonymous")?,
        created_at,
        earlier_at,
    })
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, StoreError> {
    let corrupt = || StoreError::new(ErrorKind::Corrupt, format!("a suspicion is damaged: its {name} cannot be read"));
    row.try_get(name).map_err(|error| corrupt().with_source(error))
}
