//! Hashes as records.

use bytes::Bytes;
use oncegate_core::{
    Backend, DoubtReason, ErrorKind, Fence, Fingerprint, IdempotencyKey, KeySpelling, OnAbandoned, Operation, Owner,
    Record, RecordDigest, RecordId, Scope, State, StateName, StoreError, StoredResponse,
};

use super::reply::{Reply, unexpected};

/// The fields of a record, in the order in which [`record`] reads them.
pub(super) const FIELDS: [&str; 20] = [
    "scope",
    "key",
    "operation",
    "spelling",
    "fingerprint",
    "backend",
    "on_abandoned",
    "fence",
    "owner",
    "attempt",
    "lease",
    "retention",
    "created_at",
    "expires_at",
    "state",
    "lease_until",
    "completed_at",
    "status",
    "doubted_at",
    "doubt_reason",
];

/// The fields of a response, in the order in which [`response`] reads them.
pub(super) const RESPONSE: [&str; 2] = ["headers", "body"];

/// Reads [`FIELDS`].
pub(super) fn record(record: RecordDigest, reply: &mut Reply) -> Result<Record, StoreError> {
    let (scope, key) = (Scope::from_text(&reply.text()?).ok(), IdempotencyKey::new(&reply.text()?).ok());
    let id = scope.zip(key).map(|(scope, key)| RecordId::new(scope, key)).filter(|id| id.digest() == record);
    let word = |what: &str| corrupt(record, what);
    Ok(Record {
        id: id.ok_or_else(|| word("digest"))?,
        operation: Operation::from_text(&reply.text()?),
        spelling: KeySpelling::parse(&reply.text()?).ok_or_else(|| word("spelling"))?,
        fingerprint: Fingerprint::from_bytes(&reply.bytes()?)
            .map_err(|error| word("fingerprint").with_source(error))?,
        backend: Backend::parse(&reply.text()?).ok_or_else(|| word("backend"))?,
        on_abandoned: OnAbandoned::parse(&reply.text()?).ok_or_else(|| word("on_abandoned"))?,
        fence: Fence::new(reply.number()?),
        owner: owner(record, &reply.bytes()?)?,
        attempt: reply.number()?,
        lease: reply.duration()?,
        retention: reply.duration()?,
        created_at: reply.time()?,
        expires_at: reply.time()?,
        state: state(record, reply)?,
    })
}

/// Reads [`RESPONSE`], of a completed record.
pub(super) fn response(record: &Record, reply: &mut Reply) -> Result<Option<StoredResponse>, StoreError> {
    let State::Completed { status, .. } = record.state else { return Ok(None) };
    let headers = headers(&reply.text()?, "get")?;
    Ok(Some(StoredResponse { status, headers, body: reply.optional_bytes()? }))
}

pub(super) fn headers(json: &str, verb: &str) -> Result<Vec<(String, Bytes)>, StoreError> {
    StoredResponse::parse_headers(json).map_err(|error| unexpected(verb).with_source(error))
}

/// Nothing stands for nobody.
fn owner(record: RecordDigest, bytes: &[u8]) -> Result<Option<Owner>, StoreError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = bytes.try_into().map_err(|error| corrupt(record, "owner").with_source(error))?;
    Ok(Some(Owner::from_bytes(bytes)))
}

/// Reads the last fields. Those of another state may stand there too and mean nothing.
fn state(record: RecordDigest, reply: &mut Reply) -> Result<State, StoreError> {
    let name = StateName::parse(&reply.text()?).ok_or_else(|| corrupt(record, "state"))?;
    let [lease_until, completed_at, status] = [reply.optional_text()?, reply.optional_text()?, reply.optional_text()?];
    let [doubted_at, reason] = [reply.optional_text()?, reply.optional_text()?];
    let present = |field: Option<String>, what| field.ok_or_else(|| corrupt(record, what));
    let time = |field, what| {
        let micros = present(field, what)?.parse();
        let micros = micros.map_err(|error| corrupt(record, what).with_source(error))?;
        Ok::<_, StoreError>(oncegate_core::Timestamp::from_micros(micros))
    };
    Ok(match name {
        StateName::InFlight => State::InFlight { lease_until: time(lease_until, "lease_until")? },
        StateName::Completed => {
            let status = present(status, "status")?.parse();
            let status = status.map_err(|error| corrupt(record, "status").with_source(error))?;
            State::Completed { completed_at: time(completed_at, "completed_at")?, status }
        }
        StateName::Unknown => {
            let reason = DoubtReason::new(&present(reason, "doubt_reason")?);
            State::Unknown { since: time(doubted_at, "doubted_at")?, reason }
        }
    })
}

fn corrupt(record: RecordDigest, what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("record {record} is damaged: its {what} cannot be read"))
}
