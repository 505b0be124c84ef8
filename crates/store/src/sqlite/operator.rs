//! The verbs of operators, and the audit of them.
//!
//! Each writes the record and its entry in one transaction: a guarded statement that answers the
//! operation of the record that it changed, and, if there was one, the entry.

use bytes::Bytes;
use oncegate_core::{
    AuditEntry, ErrorKind, Fence, Filter, Note, Operation, OperatorVerb, RecordDigest, Seen, StateName, StoreError,
    StoredResponse, Timestamp, Written,
};
use rusqlite::{Row, named_params};

use super::{error::Failure, queue::Verb, session::Session, write};

// === types ===

/// The verb *resolve*. The headers were made text by the caller, to spare the only writer.
pub(super) struct Resolve {
    seen: Seen,
    note: Note,
    status: u16,
    headers: String,
    body: Option<Bytes>,
}

/// The verb *purge*.
pub(super) struct Purge {
    pub(super) seen: Seen,
    pub(super) note: Note,
}

/// The verb *audit*.
pub(super) struct Audit {
    pub(super) rows: usize,
}

// === the verbs ===

impl Resolve {
    pub(super) fn new(seen: Seen, response: &StoredResponse, note: &Note) -> Self {
        let StoredResponse { status, body, .. } = response;
        Self { seen, note: note.clone(), status: *status, headers: response.headers_json(), body: body.clone() }
    }
}

impl Verb for Resolve {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let Self { seen, note, status, headers, body } = self;
        let resolved = session.first(
            include_str!("resolve.sql"),
            named_params! {
                ":record": seen.record.as_bytes(),
                ":fence": seen.fence.get(),
                ":state": seen.state.as_str(),
                ":status": status,
                ":now": session.now().as_micros(),
            },
            operation,
        );
        let Some(operation) = resolved? else { return Ok(Written::Stale) };
        write::respond(session, (seen.record, seen.fence), headers, body.as_deref())?;
        let (verb, status) = (OperatorVerb::Resolve, Some(*status));
        let entry = AuditEntry { at: session.now(), verb, seen: *seen, operation, status, note: note.clone() };
        write_entry(session, &entry)?;
        Ok(Written::Done)
    }

    fn bytes(&self) -> usize {
        self.headers.len() + self.body.as_ref().map_or(0, Bytes::len)
    }
}

impl Verb for Purge {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let Self { seen, note } = self;
        let purged = session.first(
            include_str!("purge.sql"),
            named_params! {
                ":record": seen.record.as_bytes(),
                ":fence": seen.fence.get(),
                ":state": seen.state.as_str(),
                ":force": note.force,
                ":now": session.now().as_micros(),
            },
            operation,
        );
        let Some(operation) = purged? else { return Ok(Written::Stale) };
        let verb = OperatorVerb::deleting(seen.state);
        let entry = AuditEntry { at: session.now(), verb, seen: *seen, operation, status: None, note: note.clone() };
        write_entry(session, &entry)?;
        Ok(Written::Done)
    }
}

/// The record's operation, as a statement that changed the record answers it.
fn operation(row: &Row<'_>) -> Result<Operation, rusqlite::Error> {
    row.get::<_, String>("operation").map(|text| Operation::from_text(&text))
}

fn write_entry(session: &Session<'_>, entry: &AuditEntry) -> Result<(), rusqlite::Error> {
    let AuditEntry { at, verb, seen, operation, status, note } = entry;
    let inserted = session.execute(
        include_str!("note.sql"),
        named_params! {
            ":now": at.as_micros(),
            ":verb": verb.as_str(),
            ":record": seen.record.as_bytes(),
            ":operation": operation.as_str(),
            ":fence": seen.fence.get(),
            ":state": seen.state.as_str(),
            ":status": status,
            ":operator": note.operator(),
            ":reason": note.reason(),
            ":force": note.force,
        },
    );
    inserted.map(drop)
}

// === the audit ===

impl Verb for Audit {
    type Answer = Vec<AuditEntry>;
    const NEEDS_CALLER: bool = true;

    fn apply(&self, session: &Session<'_>) -> Result<Vec<AuditEntry>, Failure> {
        let limit = i64::try_from(Filter::allowed(self.rows)).unwrap_or(i64::MAX);
        session.all(include_str!("audit.sql"), named_params! {":rows": limit}, entry)
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry, Failure> {
    let text = |name| row.get::<_, String>(name);
    let seen = Seen {
        record: RecordDigest::from_bytes(row.get("record")?),
        fence: Fence::new(row.get("fence")?),
        state: StateName::parse(&text("state")?).ok_or_else(|| corrupt("state"))?,
    };
    let note = Note::new(&text("operator")?, &text("reason")?).map_err(|error| corrupt(error.field()))?;
    Ok(AuditEntry {
        at: Timestamp::from_micros(row.get("at")?),
        verb: OperatorVerb::parse(&text("verb")?).ok_or_else(|| corrupt("verb"))?,
        seen,
        operation: Operation::from_text(&text("operation")?),
        status: row.get("status")?,
        note: note.with_force(row.get("forced")?),
    })
}

fn corrupt(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("an entry of the audit is damaged: its {what} cannot be read"))
}
