//! The claim. The function `claim_batch` of the schema restates [`oncegate_core::decide`]; here its verdicts become
//! answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use oncegate_core::{
    Claim, ClaimRequest, Completed, DoubtReason, Doubted, ErrorKind, Fence, Fingerprint, FirstUse, KeySpelling, Lease,
    Operation, Owner, RecordDigest, StateName, StoreError, StoredResponse,
};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

use super::{
    batch::corrupt,
    row,
    value::{At, Span, gate, uuid},
    verb::{Parameter, Told, Unsettled, Verb},
};

// === types ===

/// The verb *claim*.
pub(super) struct Attempt {
    request: ClaimRequest,
    /// An earlier try may still be being committed.
    is_lost: bool,
}

/// What a claim is answered.
#[derive(Debug)]
pub(crate) enum Judged {
    /// By PostgreSQL.
    Here {
        /// This.
        claim: Claim,
        /// Of which fence that is said; `None`: of a record that nobody could look at, since somebody holds it.
        #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a front asks for it"))]
        fence: Option<Fence>,
    },
    /// The key is unknown here, and an outbox is open: whether it is new is the front's to say.
    Elsewhere,
    /// The key is unknown here, and what an outbox held may not be here yet.
    Quiet,
}

/// One row of the answer.
struct Verdict<'a> {
    row: &'a Row,
    request: &'a ClaimRequest,
}

/// What a claim is told of a record that somebody keeps locked: nobody knows for how long.
const HELD_RETRY_AFTER: Duration = Duration::from_secs(1);

// === impl Judged ===

impl Judged {
    /// What a key that has to wait is told. PostgreSQL has answered: nothing speaks against it.
    pub(crate) fn quiet() -> StoreError {
        StoreError::new(ErrorKind::Unavailable, "new keys wait until all that an outbox held can be here").unapplied()
    }
}

// === impl Attempt ===

impl Attempt {
    pub(super) fn new(request: ClaimRequest) -> Self {
        Self { request, is_lost: false }
    }
}

impl Verb for Attempt {
    type Answer = Judged;

    const SQL: &'static str =
        "SELECT * FROM oncegate.claim_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    const IS_PLANNED: bool = true;
    // Nobody would execute what it acquires, and before a plain backend it would end as unknown.
    const NEEDS_CALLER: bool = true;
    // Longer than other claims hold a record, shorter than a handler inside `oncegate.enter`.
    const PATIENCE: Duration = Duration::from_millis(500);

    fn record(&self) -> RecordDigest {
        self.request.id.digest()
    }

    fn recognises_itself(&self) -> bool {
        self.request.owner.is_some()
    }

    fn lost(&mut self) {
        self.is_lost = true;
    }

    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>> {
        let requests: Vec<&'a ClaimRequest> = batch.iter().map(|attempt| &attempt.request).collect();
        let each = requests.iter();
        let texts = |text: fn(&ClaimRequest) -> &str| -> Parameter<'a> {
            (Box::new(requests.iter().map(|request| text(request)).collect::<Vec<_>>()), Type::TEXT_ARRAY)
        };
        let spans = |span: fn(&ClaimRequest) -> Duration| -> Parameter<'a> {
            (Box::new(requests.iter().map(|request| Span(span(request))).collect::<Vec<_>>()), Type::INTERVAL_ARRAY)
        };
        let records: Vec<_> = each.clone().map(|request| uuid(request.id.digest())).collect();
        let gates: Vec<_> = each.clone().map(|request| gate(request.id.digest())).collect();
        let fingerprints: Vec<_> = each.clone().map(|request| request.fingerprint.as_bytes()).collect();
        let attempts: Vec<_> = each.clone().map(|request| count(request.policy.max_attempts)).collect();
        let owners: Vec<_> = each.map(|request| owner(request.owner)).collect();
        vec![
            (Box::new(records), Type::UUID_ARRAY),
            (Box::new(gates), Type::INT8_ARRAY),
            texts(|request| request.id.scope().as_str()),
            texts(|request| request.id.key().as_str()),
            texts(|request| request.operation.as_str()),
            texts(|request| request.spelling.as_str()),
            (Box::new(fingerprints), Type::BYTEA_ARRAY),
            texts(|request| request.policy.backend.as_str()),
            texts(|request| request.policy.on_abandoned.as_str()),
            (Box::new(attempts), Type::INT4_ARRAY),
            (Box::new(owners), Type::UUID_ARRAY),
            spans(|request| request.policy.lease),
            spans(|request| request.policy.retention),
        ]
    }

    fn read(&self, row: &Row) -> Result<Told<Judged>, StoreError> {
        let verdict = Verdict { row, request: &self.request };
        let claim = match verdict.get("verdict")? {
            "raced" => return Ok(Told::Raced),
            // The key is unknown only as long as the earlier try is not committed.
            "outbox" | "quiet" if self.is_lost => return Ok(Told::Raced),
            "outbox" => return Ok(Told::Answer(Judged::Elsewhere)),
            "quiet" => return Ok(Told::Answer(Judged::Quiet)),
            "acquired" => Claim::Acquired(verdict.acquired()?),
            "recognised" => Claim::Acquired(verdict.lease(verdict.remaining()?)?),
            "in_flight" => Claim::InFlight { retry_after: verdict.remaining()? },
            "completed" => Claim::Completed(verdict.completed()?),
            "mismatch" => Claim::Mismatch(verdict.first_use()?),
            "unknown" => Claim::Unknown(verdict.doubted()?),
            "rules_changed" => Claim::RulesChanged { recorded: verdict.fingerprint()? },
            "collision" => {
                let text = format!("record {} belongs to another key", self.record());
                return Err(StoreError::new(ErrorKind::Collision, text));
            }
            _ => return Err(corrupt(self.record(), "verdict")),
        };
        Ok(Told::Answer(Judged::Here { claim, fence: verdict.get::<Option<i64>>("fence")?.map(Fence::new) }))
    }

    /// The record is there and somebody else is at it: another claim, or a backend that has completed it and not
    /// committed yet, however long ago its lease ended.
    fn give_up(&self, _why: Unsettled) -> Result<Judged, StoreError> {
        Ok(Judged::Here { claim: Claim::InFlight { retry_after: HELD_RETRY_AFTER }, fence: None })
    }
}

fn count(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}

/// An owner as PostgreSQL keeps it.
pub(super) fn owner(owner: Option<Owner>) -> Option<Uuid> {
    owner.map(|owner| Uuid::from_bytes(*owner.as_bytes()))
}

// === impl Verdict ===

impl<'a> Verdict<'a> {
    /// A lease that was written just now, as long as it was given.
    fn acquired(&self) -> Result<Lease, StoreError> {
        let length = self.get::<Option<Span>>("lease")?.map_or(self.request.policy.lease, |Span(length)| length);
        self.lease(length)
    }

    fn lease(&self, length: Duration) -> Result<Lease, StoreError> {
        let At(created_at) = self.get("created_at")?;
        Ok(Lease {
            record: self.request.id.digest(),
            fence: Fence::new(self.get("fence")?),
            owner: self.request.owner,
            attempt: u32::try_from(self.get::<i32>("attempt")?).map_err(|error| self.corrupt("attempt", error))?,
            length,
            spelling: self.spelling()?,
            created_at,
        })
    }

    /// A takeover forwards the spelling of the first request; a first request has its own.
    fn spelling(&self) -> Result<KeySpelling, StoreError> {
        match self.get::<Option<&str>>("spelling")? {
            Some(word) => KeySpelling::parse(word).ok_or_else(|| corrupt(self.request.id.digest(), "spelling")),
            None => Ok(self.request.spelling),
        }
    }

    fn remaining(&self) -> Result<Duration, StoreError> {
        let (At(until), At(now)) = (self.get("until")?, self.get("now")?);
        Ok(until.since(now))
    }

    fn completed(&self) -> Result<Completed, StoreError> {
        let (At(completed_at), At(expires_at)) = (self.get("since")?, self.get("until")?);
        let response = StoredResponse {
            status: row::status(self.get("status")?).ok_or_else(|| corrupt(self.request.id.digest(), "status"))?,
            headers: row::headers(self.get("headers")?).map_err(|error| self.corrupt("headers", error))?,
            body: self.get::<Option<&[u8]>>("body")?.map(Bytes::copy_from_slice),
        };
        Ok(Completed { response: Arc::new(response), completed_at, expires_at, expires_in: self.remaining()? })
    }

    fn first_use(&self) -> Result<FirstUse, StoreError> {
        let state = StateName::parse(self.get("state")?);
        let state = state.ok_or_else(|| corrupt(self.request.id.digest(), "state"))?;
        Ok(FirstUse { operation: Operation::from_text(self.get("note")?), state })
    }

    fn doubted(&self) -> Result<Doubted, StoreError> {
        let At(since) = self.get("since")?;
        Ok(Doubted { reason: DoubtReason::new(self.get("note")?), since })
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        Fingerprint::from_bytes(self.get("fingerprint")?).map_err(|error| self.corrupt("fingerprint", error))
    }

    fn get<T: FromSql<'a>>(&self, name: &str) -> Result<T, StoreError> {
        self.row.try_get(name).map_err(|error| self.corrupt(name, error))
    }

    fn corrupt(&self, what: &str, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
        corrupt(self.request.id.digest(), what).with_source(error)
    }
}
