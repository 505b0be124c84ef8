//! Rows as records, and what must hold for a row to be one.

use std::time::Duration;

use bytes::Bytes;
use oncegate_core::{
    Backend, DoubtReason, ErrorKind, Fence, Fingerprint, IdempotencyKey, KeySpelling, OnAbandoned, Operation, Owner,
    Record, RecordDigest, RecordId, Scope, State, StateName, StoreError, StoredResponse, Timestamp,
};
use rusqlite::{Row, named_params, types::FromSql};

use super::{error::Failure, session::Session};

// === types ===

/// A row of `find.sql`, read by name.
struct Columns<'a> {
    row: &'a Row<'a>,
    record: RecordDigest,
}

// === finding ===

/// Reads the record of `id`, expired or not.
///
/// Fails with [`ErrorKind::Collision`] when the row under its digest has another scope or key.
pub(super) fn find_own(session: &Session<'_>, id: &RecordId) -> Result<Option<Record>, Failure> {
    find_with(session, id.digest(), |columns| {
        let (scope, key) = (columns.text("scope")?, columns.text("key")?);
        if (scope, key) == (id.scope().as_str(), id.key().as_str()) {
            return Ok(id.clone());
        }
        Err(StoreError::new(ErrorKind::Collision, format!("record {} belongs to another key", id.digest())))
    })
}

/// Reads a record by its digest, expired or not.
pub(super) fn find(session: &Session<'_>, record: RecordDigest) -> Result<Option<Record>, Failure> {
    find_with(session, record, |columns| {
        let scope = columns.read("scope", |text| Scope::from_text(text).ok())?;
        let key = columns.read("key", |text| IdempotencyKey::new(text).ok())?;
        let id = Some(RecordId::new(scope, key)).filter(|id| id.digest() == record);
        id.ok_or_else(|| corrupt(record, "digest"))
    })
}

fn find_with(
    session: &Session<'_>,
    record: RecordDigest,
    id: impl Fn(&Columns<'_>) -> Result<RecordId, StoreError>,
) -> Result<Option<Record>, Failure> {
    session.first(include_str!("find.sql"), named_params! {":record": record.as_bytes()}, |row| {
        let columns = Columns { row, record };
        Ok(columns.record(id(&columns)?)?)
    })
}

/// Reads the response of a completed record; other records have none.
pub(super) fn response(session: &Session<'_>, record: &Record) -> Result<Option<StoredResponse>, Failure> {
    let State::Completed { status, .. } = record.state else { return Ok(None) };
    let digest = record.id.digest();
    let parameters = named_params! {":fence": record.fence.get(), ":record": digest.as_bytes()};
    let found = session.first(include_str!("response.sql"), parameters, |row| {
        Ok::<_, rusqlite::Error>((row.get::<_, String>("headers")?, row.get::<_, Option<Vec<u8>>>("body")?))
    })?;
    let (headers, body) = found.ok_or_else(|| corrupt(digest, "response"))?;
    let headers = StoredResponse::parse_headers(&headers);
    let headers = headers.map_err(|error| corrupt(digest, "headers").with_source(error))?;
    Ok(Some(StoredResponse { status, headers, body: body.map(Bytes::from) }))
}

// === impl Columns ===

impl Columns<'_> {
    fn record(&self, id: RecordId) -> Result<Record, StoreError> {
        Ok(Record {
            id,
            operation: Operation::from_text(self.text("operation")?),
            spelling: self.read("spelling", KeySpelling::parse)?,
            fingerprint: self.fingerprint()?,
            backend: self.read("backend", Backend::parse)?,
            on_abandoned: self.read("on_abandoned", OnAbandoned::parse)?,
            fence: Fence::new(self.get("fence")?),
            owner: self.get::<Option<[u8; 16]>>("owner")?.map(Owner::from_bytes),
            attempt: self.get("attempt")?,
            lease: self.duration("lease")?,
            retention: self.duration("retention")?,
            created_at: self.time("created_at")?,
            expires_at: self.time("expires_at")?,
            state: self.state()?,
        })
    }

    fn state(&self) -> Result<State, StoreError> {
        Ok(match self.read("state", StateName::parse)? {
            StateName::InFlight => State::InFlight { lease_until: self.time("lease_until")? },
            StateName::Completed => {
                State::Completed { completed_at: self.time("completed_at")?, status: self.get("status")? }
            }
            StateName::Unknown => {
                let reason = DoubtReason::new(self.text("doubt_reason")?);
                State::Unknown { since: self.time("doubted_at")?, reason }
            }
        })
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        let bytes: Vec<u8> = self.get("fingerprint")?;
        Fingerprint::from_bytes(&bytes).map_err(|error| corrupt(self.record, "fingerprint").with_source(error))
    }

    fn time(&self, name: &str) -> Result<Timestamp, StoreError> {
        self.get(name).map(Timestamp::from_micros)
    }

    fn duration(&self, name: &str) -> Result<Duration, StoreError> {
        let micros: i64 = self.get(name)?;
        u64::try_from(micros).map(Duration::from_micros).map_err(|error| corrupt(self.record, name).with_source(error))
    }

    fn read<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        parse(self.text(name)?).ok_or_else(|| corrupt(self.record, name))
    }

    fn text(&self, name: &str) -> Result<&str, StoreError> {
        let text = self.row.get_ref(name).and_then(|value| Ok(value.as_str()?));
        text.map_err(|error| corrupt(self.record, name).with_source(error))
    }

    fn get<T: FromSql>(&self, name: &str) -> Result<T, StoreError> {
        self.row.get(name).map_err(|error| corrupt(self.record, name).with_source(error))
    }
}

fn corrupt(record: RecordDigest, what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("record {record} is damaged: its {what} cannot be read"))
}
