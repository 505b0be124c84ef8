//! Rows as records, and what must hold for a row to be one.

use bytes::Bytes;
use oncegate_core::{
    Backend, DoubtReason, Fence, Fingerprint, IdempotencyKey, KeySpelling, OnAbandoned, Operation, Owner, Record,
    RecordDigest, RecordId, Scope, State, StateName, StoreError, StoredResponse,
};
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use super::{
    batch::corrupt,
    value::{At, Span},
};

// === types ===

/// A row with every column of a record, read by name.
struct Columns<'a> {
    row: &'a Row,
    record: RecordDigest,
}

// === records ===

/// Reads a record.
pub(super) fn record(record: RecordDigest, row: &Row) -> Result<Record, StoreError> {
    Columns { row, record }.record()
}

/// Reads the response that stands beside a record; `None` if that is not completed.
pub(super) fn response(record: &Record, row: &Row) -> Result<Option<StoredResponse>, StoreError> {
    let State::Completed { status, .. } = record.state else { return Ok(None) };
    let digest = record.id.digest();
    let columns = Columns { row, record: digest };
    let stored = columns.get::<Option<&str>>("headers")?.ok_or_else(|| corrupt(digest, "response"))?;
    let headers = headers(stored).map_err(|error| corrupt(digest, "headers").with_source(error))?;
    let body = columns.get::<Option<&[u8]>>("body")?.map(Bytes::copy_from_slice);
    Ok(Some(StoredResponse { status, headers, body }))
}

// === impl Columns ===

impl<'a> Columns<'a> {
    fn record(&self) -> Result<Record, StoreError> {
        let (Span(lease), Span(retention)) = (self.get("lease")?, self.get("retention")?);
        let (At(created_at), At(expires_at)) = (self.get("created_at")?, self.get("expires_at")?);
        Ok(Record {
            id: self.id()?,
            operation: Operation::from_text(self.get("operation")?),
            spelling: self.word("spelling", KeySpelling::parse)?,
            fingerprint: self.fingerprint()?,
            backend: self.word("backend", Backend::parse)?,
            on_abandoned: self.word("on_abandoned", OnAbandoned::parse)?,
            fence: Fence::new(self.get("fence")?),
            owner: self.get::<Option<Uuid>>("owner")?.map(|owner| Owner::from_bytes(*owner.as_bytes())),
            attempt: u32::try_from(self.get::<i32>("attempt")?)
                .map_err(|error| corrupt(self.record, "attempt").with_source(error))?,
            lease,
            retention,
            created_at,
            expires_at,
            state: self.state()?,
        })
    }

    fn id(&self) -> Result<RecordId, StoreError> {
        let scope = self.word("scope", |text| Scope::from_text(text).ok())?;
        let key = self.word("key", |text| IdempotencyKey::new(text).ok())?;
        let id = Some(RecordId::new(scope, key)).filter(|id| id.digest() == self.record);
        id.ok_or_else(|| corrupt(self.record, "digest"))
    }

    fn state(&self) -> Result<State, StoreError> {
        Ok(match self.word("state", StateName::parse)? {
            StateName::InFlight => {
                let At(lease_until) = self.get("lease_until")?;
                State::InFlight { lease_until }
            }
            StateName::Completed => {
                let At(completed_at) = self.get("completed_at")?;
                let status = status(self.get("status")?).ok_or_else(|| corrupt(self.record, "status"))?;
                State::Completed { completed_at, status }
            }
            StateName::Unknown => {
                let At(since) = self.get("doubted_at")?;
                State::Unknown { since, reason: DoubtReason::new(self.get("doubt_reason")?) }
            }
        })
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        let bytes = self.get("fingerprint")?;
        Fingerprint::from_bytes(bytes).map_err(|error| corrupt(self.record, "fingerprint").with_source(error))
    }

    fn word<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        parse(self.get(name)?).ok_or_else(|| corrupt(self.record, name))
    }

    fn get<T: FromSql<'a>>(&self, name: &str) -> Result<T, StoreError> {
        self.row.try_get(name).map_err(|error| corrupt(self.record, name).with_source(error))
    }
}

// === headers ===

/// What stands for NUL in a header's value: `jsonb` cannot hold it, and values are Latin-1 otherwise.
const NUL: char = '\u{2400}';

/// The headers as `jsonb` can keep them.
pub(super) fn headers_json(response: &StoredResponse) -> String {
    let json = response.headers_json();
    if response.headers.iter().all(|(_, value)| !value.contains(&0)) {
        return json;
    }
    let pairs: Vec<(String, String)> = serde_json::from_str(&json).expect("it was written as such pairs");
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name, value.replace('\0', &NUL.to_string()))).collect();
    serde_json::to_string(&pairs).expect("pairs of strings are always JSON")
}

/// Reads what [`headers_json`] wrote.
pub(super) fn headers(json: &str) -> Result<Vec<(String, Bytes)>, serde_json::Error> {
    match json.contains(NUL) {
        true => StoredResponse::parse_headers(&json.replace(NUL, "\\u0000")),
        false => StoredResponse::parse_headers(json),
    }
}

/// Reads a status.
pub(super) fn status(number: i32) -> Option<u16> {
    u16::try_from(number).ok()
}
