//! The verbs of operators, and the audit of them. Each writes the record and its entry in one statement.

use oncegate_core::{
    AuditEntry, ErrorKind, Fence, Filter, Note, Operation, OperatorVerb, RecordDigest, Seen, StateName, StoreError,
    StoredResponse, Written,
};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

use super::{
    row,
    value::{At, digest, uuid},
    verb::{Parameter, Statement, Told, Verb},
    write,
};

// === types ===

/// The verb *resolve*.
pub(super) struct Resolve {
    seen: Seen,
    note: Note,
    response: StoredResponse,
    headers: String,
    /// It was sent before, on a connection that was lost: what it finds may be its own work.
    is_again: bool,
}

/// The verb *purge*.
pub(super) struct Purge {
    seen: Seen,
    note: Note,
    /// As in [`Resolve`].
    is_again: bool,
}

// === the verbs ===

/// The columns that both statements begin with.
fn seen_columns<'a>(seen: impl Iterator<Item = Seen> + Clone) -> Vec<Parameter<'a>> {
    let records: Vec<_> = seen.clone().map(|seen| uuid(seen.record)).collect();
    let fences: Vec<_> = seen.clone().map(|seen| seen.fence.get()).collect();
    let states: Vec<_> = seen.map(|seen| seen.state.as_str()).collect();
    vec![
        (Box::new(records), Type::UUID_ARRAY),
        (Box::new(fences), Type::INT8_ARRAY),
        (Box::new(states), Type::TEXT_ARRAY),
    ]
}

/// The columns that both statements end with.
fn note_columns<'a>(notes: impl Iterator<Item = &'a Note> + Clone) -> Vec<Parameter<'a>> {
    let operators: Vec<_> = notes.clone().map(Note::operator).collect();
    let reasons: Vec<_> = notes.clone().map(Note::reason).collect();
    let forced: Vec<_> = notes.map(|note| note.force).collect();
    vec![
        (Box::new(operators), Type::TEXT_ARRAY),
        (Box::new(reasons), Type::TEXT_ARRAY),
        (Box::new(forced), Type::BOOL_ARRAY),
    ]
}

impl Resolve {
    pub(super) fn new(seen: Seen, response: &StoredResponse, note: &Note) -> Self {
        let headers = row::headers_json(response);
        Self { seen, note: note.clone(), response: response.clone(), headers, is_again: false }
    }
}

impl Verb for Resolve {
    type Answer = Written;
    const SQL: &'static str = include_str!("resolve.sql");

    fn record(&self) -> RecordDigest {
        self.seen.record
    }

    fn bytes(&self) -> usize {
        self.response.held_bytes()
    }

    fn recognises_itself(&self) -> bool {
        true
    }

    fn lost(&mut self) {
        self.is_again = true;
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = seen_columns(batch.iter().map(|resolve| resolve.seen));
        let statuses: Vec<_> = batch.iter().map(|resolve| i32::from(resolve.response.status)).collect();
        let headers: Vec<_> = batch.iter().map(|resolve| resolve.headers.as_str()).collect();
        let bodies: Vec<_> = batch.iter().map(|resolve| resolve.response.body.as_deref()).collect();
        columns.push((Box::new(statuses), Type::INT4_ARRAY));
        columns.push((Box::new(headers), Type::TEXT_ARRAY));
        columns.push((Box::new(bodies), Type::BYTEA_ARRAY));
        columns.extend(note_columns(batch.iter().map(|resolve| &resolve.note)));
        columns.push(write::flags(batch.iter().map(|resolve| resolve.is_again)));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        write::written(self.record(), row)
    }
}

impl Purge {
    pub(super) fn new(seen: Seen, note: &Note) -> Self {
        Self { seen, note: note.clone(), is_again: false }
    }
}

impl Verb for Purge {
    type Answer = Written;
    const SQL: &'static str = include_str!("purge.sql");

    fn record(&self) -> RecordDigest {
        self.seen.record
    }

    fn recognises_itself(&self) -> bool {
        true
    }

    fn lost(&mut self) {
        self.is_again = true;
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let mut columns = seen_columns(batch.iter().map(|purge| purge.seen));
        let verbs: Vec<_> = batch.iter().map(|purge| OperatorVerb::deleting(purge.seen.state).as_str()).collect();
        columns.push((Box::new(verbs), Type::TEXT_ARRAY));
        columns.extend(note_columns(batch.iter().map(|purge| &purge.note)));
        columns.push(write::flags(batch.iter().map(|purge| purge.is_again)));
        columns
    }

    fn read(&self, row: &Row) -> Result<Told<Written>, StoreError> {
        write::written(self.record(), row)
    }
}

// === the audit ===

/// The statement of the verb *audit*.
pub(super) fn audit(rows: usize) -> Statement<'static> {
    let rows = i64::try_from(Filter::allowed(rows)).unwrap_or(i64::MAX);
    Statement { sql: include_str!("audit.sql"), is_planned: false, parameters: vec![(Box::new(rows), Type::INT8)] }
}

/// The entry of one of its rows.
pub(super) fn entry(row: &Row) -> Result<AuditEntry, StoreError> {
    let seen = Seen {
        record: digest(get::<Uuid>(row, "record")?),
        fence: Fence::new(get(row, "fence")?),
        state: StateName::parse(get(row, "state")?).ok_or_else(|| corrupt("state"))?,
    };
    let note = Note::new(get(row, "operator")?, get(row, "reason")?).map_err(|error| corrupt(error.field()))?;
    let status = get::<Option<i32>>(row, "status")?;
    let At(at) = get(row, "at")?;
    Ok(AuditEntry {
        at,
        verb: OperatorVerb::parse(get(row, "verb")?).ok_or_else(|| corrupt("verb"))?,
        seen,
        operation: Operation::from_text(get(row, "operation")?),
        status: status.map(|status| row::status(status).ok_or_else(|| corrupt("status"))).transpose()?,
        note: note.with_force(get(row, "forced")?),
    })
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|error| corrupt(name).with_source(error))
}

fn corrupt(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("an entry of the audit is damaged: its {what} cannot be read"))
}
