//! The claim: read the row, let the specification judge it, write what it says.
//!
//! All three happen in the writer's IMMEDIATE transaction. It holds SQLite's only write lock from before
//! the row is read until the commit, so nobody else, in this process or another, can change the row in
//! between; and no claim is answered before the commit. Hence this runs [`decide`] itself instead of
//! restating it in SQL.
//!
//! Nearly every record is absent, and the unique digest tells so as well as a look at the row does. So what
//! the specification says of an absent record is written first, unless there is a row: then that is judged.

use std::time::Duration;

use oncegate_core::{
    Claim, ClaimRequest, Completed, Decision, DoubtReason, Doubted, ErrorKind, Owner, Record, StoreError, decide,
};
use rusqlite::named_params;

use super::{
    error::Failure,
    queue::Verb,
    row,
    session::{Session, micros},
    write::{Guard, doubt},
};

// === types ===

/// The verb *claim*.
pub(super) struct Attempt(pub(super) ClaimRequest);

// === impl Attempt ===

impl Verb for Attempt {
    type Answer = Claim;

    // Nobody would execute what it acquires, and before a plain backend it would end as unknown.
    const NEEDS_CALLER: bool = true;

    fn apply(&self, session: &Session<'_>) -> Result<Claim, Failure> {
        let Self(request) = self;
        if let Decision::Acquire { attempt, lease } = decide(None, request, session.now())
            && let Some(claim) = acquire_absent(session, request, (attempt, lease))?
        {
            return Ok(claim);
        }
        let record = row::find_own(session, &request.id)?;
        match decide(record.as_ref(), request, session.now()) {
            Decision::Answer(claim) => Ok(claim),
            Decision::Replay { completed_at, expires_at, expires_in } => {
                let response = row::response(session, judged(&record))?.expect("only completed records are replayed");
                Ok(Claim::Completed(Completed { response: response.into(), completed_at, expires_at, expires_in }))
            }
            Decision::Doubt(reason) => write_doubt(session, judged(&record), reason),
            Decision::Acquire { attempt, lease } => acquire(session, request, record.as_ref(), (attempt, lease)),
        }
    }
}

fn judged(record: &Option<Record>) -> &Record {
    record.as_ref().expect("what is absent is acquired, neither replayed nor doubted")
}

fn write_doubt(session: &Session<'_>, record: &Record, reason: DoubtReason) -> Result<Claim, Failure> {
    let guard = Guard { record: record.id.digest(), fence: record.fence, owner: record.owner };
    exactly_one(doubt(session, &guard, &reason)?, record)?;
    Ok(Claim::Unknown(Doubted { reason, since: session.now() }))
}

/// `None`: it is not absent, and nothing was written.
fn acquire_absent(
    session: &Session<'_>,
    request: &ClaimRequest,
    terms: (u32, Duration),
) -> Result<Option<Claim>, Failure> {
    let fence = session.next_fence()?;
    let acquired = Record::acquired(request, None, fence, terms, session.now());
    if insert(session, &acquired)? == 0 {
        return Ok(None);
    }
    session.give(fence);
    Ok(Some(Claim::Acquired(acquired.leased(acquired.lease))))
}

fn acquire(
    session: &Session<'_>,
    request: &ClaimRequest,
    previous: Option<&Record>,
    terms: (u32, Duration),
) -> Result<Claim, Failure> {
    let now = session.now();
    let fence = session.next_fence()?;
    session.give(fence);
    let acquired = Record::acquired(request, previous, fence, terms, now);
    match previous {
        Some(abandoned) if !abandoned.is_expired(now) => take_over(session, abandoned, &acquired)?,
        Some(_) | None => {
            previous.map_or(Ok(()), |expired| expire(session, expired))?;
            exactly_one(insert(session, &acquired)?, &acquired)?;
        }
    }
    Ok(Claim::Acquired(acquired.leased(acquired.lease)))
}

fn expire(session: &Session<'_>, record: &Record) -> Result<(), Failure> {
    let deleted = session.execute(
        include_str!("expire.sql"),
        named_params! {":record": record.id.digest().as_bytes(), ":now": session.now().as_micros()},
    )?;
    exactly_one(deleted, record)
}

/// Returns how many rows were written: none if the record has one.
fn insert(session: &Session<'_>, record: &Record) -> Result<usize, rusqlite::Error> {
    session.execute(
        include_str!("claim.sql"),
        named_params! {
            ":record": record.id.digest().as_bytes(),
            ":scope": record.id.scope().as_str(),
            ":key": record.id.key().as_str(),
            ":operation": record.operation.as_str(),
            ":spelling": record.spelling.as_str(),
            ":fingerprint": record.fingerprint.as_bytes(),
            ":backend": record.backend.as_str(),
            ":on_abandoned": record.on_abandoned.as_str(),
            ":fence": record.fence.get(),
            ":owner": record.owner.as_ref().map(Owner::as_bytes),
            ":attempt": record.attempt,
            ":lease": micros(record.lease),
            ":retention": micros(record.retention),
            ":created_at": record.created_at.as_micros(),
            ":lease_until": session.now().after(record.lease).as_micros(),
            ":expires_at": record.expires_at.as_micros(),
        },
    )
}

fn take_over(session: &Session<'_>, abandoned: &Record, acquired: &Record) -> Result<(), Failure> {
    let taken = session.execute(
        include_str!("takeover.sql"),
        named_params! {
            ":record": acquired.id.digest().as_bytes(),
            ":previous": abandoned.fence.get(),
            ":fence": acquired.fence.get(),
            ":owner": acquired.owner.as_ref().map(Owner::as_bytes),
            ":attempt": acquired.attempt,
            ":lease": micros(acquired.lease),
            ":retention": micros(acquired.retention),
            ":lease_until": session.now().after(acquired.lease).as_micros(),
            ":expires_at": acquired.expires_at.as_micros(),
            ":now": session.now().as_micros(),
        },
    )?;
    exactly_one(taken, acquired)
}

fn exactly_one(changed: usize, record: &Record) -> Result<(), Failure> {
    match changed {
        1 => Ok(()),
        rows => {
            let text = format!("record {} changed while it was judged: {rows} rows instead of 1", record.id.digest());
            Err(StoreError::new(ErrorKind::Unavailable, text).into())
        }
    }
}
