//! The verbs of operators, and the audit of them.

use oncegate_core::{
    AuditEntry, ErrorKind, Fence, Note, Operation, OperatorVerb, RecordDigest, Seen, StateName, StoreError,
    StoredResponse, Timestamp,
};

use super::{
    caller::Sent,
    layout::{self, Tag},
    options::Options,
    script::{Call, PURGE, RESOLVE, Script},
    write::with_response,
};

pub(super) fn resolve(seen: Seen, response: &StoredResponse, note: &Note, sent: &Sent<'_>, options: &Options) -> Call {
    with_note(with_response(as_seen(seen, &RESOLVE, sent, options), response), note)
}

pub(super) fn purge(seen: Seen, note: &Note, sent: &Sent<'_>, options: &Options) -> Call {
    with_note(as_seen(seen, &PURGE, sent, options).with(OperatorVerb::deleting(seen.state).as_str()), note)
}

fn as_seen(seen: Seen, script: &'static Script, sent: &Sent<'_>, options: &Options) -> Call {
    let keys = Tag::of(seen.record).keys_of(seen.record, &layout::call(sent));
    Call::new(script, keys, options.now()).with(seen.fence.get()).with(seen.state.as_str())
}

fn with_note(call: Call, note: &Note) -> Call {
    call.with(note.operator()).with(note.reason()).with(note.force)
}

// === the audit ===

/// Reads an entry as `record.lua` writes it, with the time that entries of all tags are sorted by.
pub(super) fn entry(json: &str) -> Result<(i64, AuditEntry), StoreError> {
    let texts: [String; 11] = serde_json::from_str(json).map_err(|error| damaged().with_source(error))?;
    let [order, at, verb, digest, fence, state, status, operation, operator, reason, force] = &texts;
    let number = |text: &str| text.parse::<i64>().map_err(|error| damaged().with_source(error));
    let seen = Seen {
        record: RecordDigest::parse(digest).ok_or_else(damaged)?,
        fence: Fence::new(number(fence)?),
        state: StateName::parse(state).ok_or_else(damaged)?,
    };
    let status = Some(status).filter(|status| !status.is_empty()).map(|status| status.parse());
    let note = Note::new(operator, reason).map_err(|error| damaged().with_source(error))?;
    let entry = AuditEntry {
        at: Timestamp::from_micros(number(at)?),
        verb: OperatorVerb::parse(verb).ok_or_else(damaged)?,
        seen,
        operation: Operation::from_text(operation),
        status: status.transpose().map_err(|error| damaged().with_source(error))?,
        note: note.with_force(force == "1"),
    };
    Ok((number(order)?, entry))
}

fn damaged() -> StoreError {
    StoreError::new(ErrorKind::Corrupt, "an entry of the audit is damaged: it cannot be read")
}
