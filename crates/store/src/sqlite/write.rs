//! The verbs that write under a lease, and that of the reaper.

use std::time::Duration;

use bytes::Bytes;
use oncegate_core::{DoubtReason, Fence, Lease, Owner, Reaped, RecordDigest, StoredResponse, Written};
use rusqlite::named_params;

use super::{error::Failure, queue::Verb, session::Session};

// === types ===

/// What a write after the claim names, beside the states that it may leave.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    pub(super) record: RecordDigest,
    pub(super) fence: Fence,
    /// `None`: the lease has none, and the fence alone decides.
    pub(super) owner: Option<Owner>,
}

/// The verb *extend*.
pub(super) struct Extend {
    pub(super) guard: Guard,
    pub(super) length: Duration,
}

/// The verb *complete*. The headers were made text by the caller, to spare the only writer.
pub(super) struct Complete {
    guard: Guard,
    status: u16,
    headers: String,
    body: Option<Bytes>,
}

/// The verb *doubt*.
pub(super) struct Doubt {
    pub(super) guard: Guard,
    pub(super) reason: DoubtReason,
}

/// The verb *release*.
pub(super) struct Release {
    pub(super) guard: Guard,
}

/// The verb *withdraw*.
pub(super) struct Withdraw {
    pub(super) record: RecordDigest,
    pub(super) owner: Owner,
}

/// The verb *reap*.
pub(super) struct Reap {
    pub(super) rows: usize,
}

// === impl Guard ===

impl From<&Lease> for Guard {
    fn from(lease: &Lease) -> Self {
        Self { record: lease.record, fence: lease.fence, owner: lease.owner }
    }
}

impl Guard {
    fn owner(&self) -> Option<&[u8; 16]> {
        self.owner.as_ref().map(Owner::as_bytes)
    }
}

// === the verbs ===

impl Verb for Extend {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let changed = session.execute(
            include_str!("extend.sql"),
            named_params! {
                ":record": self.guard.record.as_bytes(),
                ":fence": self.guard.fence.get(),
                ":owner": self.guard.owner(),
                ":lease_until": session.now().after(self.length).as_micros(),
                ":now": session.now().as_micros(),
            },
        )?;
        Ok(written(changed))
    }
}

impl Complete {
    pub(super) fn new(guard: Guard, response: &StoredResponse) -> Self {
        let StoredResponse { status, body, .. } = response;
        Self { guard, status: *status, headers: response.headers_json(), body: body.clone() }
    }

    /// Whether this very completion was stored before and its reply was lost.
    fn is_stored(&self, session: &Session<'_>) -> Result<bool, rusqlite::Error> {
        let Some(owner) = self.guard.owner() else { return Ok(false) };
        let parameters = named_params! {
            ":record": self.guard.record.as_bytes(),
            ":fence": self.guard.fence.get(),
            ":owner": owner,
            ":now": session.now().as_micros(),
        };
        let found = session.first(include_str!("completed.sql"), parameters, |_| Ok::<_, rusqlite::Error>(()))?;
        Ok(found.is_some())
    }
}

impl Verb for Complete {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let changed = session.execute(
            include_str!("complete.sql"),
            named_params! {
                ":record": self.guard.record.as_bytes(),
                ":fence": self.guard.fence.get(),
                ":owner": self.guard.owner(),
                ":status": self.status,
                ":now": session.now().as_micros(),
            },
        )?;
        match written(changed) {
            Written::Done => {
                let Guard { record, fence, .. } = self.guard;
                respond(session, (record, fence), &self.headers, self.body.as_deref())?;
            }
            Written::Stale if !self.is_stored(session)? => return Ok(Written::Stale),
            Written::Stale => {}
        }
        Ok(Written::Done)
    }

    fn bytes(&self) -> usize {
        self.headers.len() + self.body.as_ref().map_or(0, Bytes::len)
    }
}

/// Stores the response of a record that the same transaction has completed; a resolve does so too.
pub(super) fn respond(
    session: &Session<'_>,
    (record, fence): (RecordDigest, Fence),
    headers: &str,
    body: Option<&[u8]>,
) -> Result<(), rusqlite::Error> {
    let inserted = session.execute(
        include_str!("respond.sql"),
        named_params! {
            ":fence": fence.get(),
            ":record": record.as_bytes(),
            ":headers": headers,
            ":body": body,
        },
    );
    inserted.map(drop)
}

impl Verb for Doubt {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        doubt(session, &self.guard, &self.reason).map(written).map_err(Failure::from)
    }
}

/// Makes an in-flight record unknown; a claim does so too. Returns how many rows changed.
pub(super) fn doubt(session: &Session<'_>, guard: &Guard, reason: &DoubtReason) -> Result<usize, rusqlite::Error> {
    session.execute(
        include_str!("doubt.sql"),
        named_params! {
            ":record": guard.record.as_bytes(),
            ":fence": guard.fence.get(),
            ":owner": guard.owner(),
            ":reason": reason.as_str(),
            ":now": session.now().as_micros(),
        },
    )
}

impl Verb for Release {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let changed = session.execute(
            include_str!("release.sql"),
            named_params! {
                ":record": self.guard.record.as_bytes(),
                ":fence": self.guard.fence.get(),
                ":owner": self.guard.owner(),
                ":now": session.now().as_micros(),
            },
        )?;
        match written(changed) {
            Written::Done => Ok(Written::Done),
            Written::Stale => give_back(session, self.guard.record, Some(self.guard.fence), self.guard.owner()),
        }
    }
}

impl Verb for Withdraw {
    type Answer = Written;

    fn apply(&self, session: &Session<'_>) -> Result<Written, Failure> {
        let changed = session.execute(
            include_str!("withdraw.sql"),
            named_params! {
                ":record": self.record.as_bytes(),
                ":owner": self.owner.as_bytes(),
                ":now": session.now().as_micros(),
            },
        )?;
        match written(changed) {
            Written::Done => Ok(Written::Done),
            Written::Stale => give_back(session, self.record, None, Some(self.owner.as_bytes())),
        }
    }
}

/// Gives a takeover back, by its fence (*release*) or by its owner alone (*withdraw*).
fn give_back(
    session: &Session<'_>,
    record: RecordDigest,
    fence: Option<Fence>,
    owner: Option<&[u8; 16]>,
) -> Result<Written, Failure> {
    let next = session.next_fence()?;
    let changed = session.execute(
        include_str!("give_back.sql"),
        named_params! {
            ":record": record.as_bytes(),
            ":fence": fence.map(Fence::get),
            ":owner": owner,
            ":next": next.get(),
            ":now": session.now().as_micros(),
        },
    )?;
    if written(changed) == Written::Done {
        session.give(next);
    }
    Ok(written(changed))
}

impl Verb for Reap {
    type Answer = Reaped;

    fn apply(&self, session: &Session<'_>) -> Result<Reaped, Failure> {
        let now = session.now().as_micros();
        // Twice as many must be a number too.
        let rows = i64::try_from(self.rows).unwrap_or(i64::MAX).min(i64::MAX / 2);
        let expired = session.execute(include_str!("reap_expired.sql"), named_params! {":now": now, ":rows": rows})?;
        let reason = DoubtReason::WORKER_DIED;
        let doubted = session.execute(
            include_str!("reap_abandoned.sql"),
            named_params! {":now": now, ":rows": rows, ":reason": reason.as_str()},
        )?;
        Ok(Reaped { expired, doubted })
    }
}

/// What a guarded statement on one record did.
fn written(changed: usize) -> Written {
    match changed {
        0 => Written::Stale,
        _ => Written::Done,
    }
}
