//! One record as the contract sees it: claims by [`decide`], every other verb by its own sentence.
//!
//! This is not [`MemoryStore`](crate::MemoryStore) once more: it does not answer, it says whether an
//! answer that was seen can be right, and what the record is then. Fences are taken from the answers
//! and must only grow.

use std::time::Duration;

use super::call::{Call, Found, Reply};
use crate::{
    Claim, ClaimRequest, Completed, Decision, DoubtReason, Doubted, Fence, Lease, OnAbandoned, Owner, Record, Seen,
    State, StateName, StoredResponse, Timestamp, Written, decide,
};

// === types ===

/// What is stored under one record id, expired or not, and the greatest fence that it ever had.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Slot {
    row: Option<Row>,
    last_fence: Option<Fence>,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    record: Record,
    response: Option<StoredResponse>,
    /// A takeover was given back: the record has a new fence that no answer told. It is greater than the one
    /// that stands here, and known once somebody reads it.
    fence_is_hidden: bool,
}

/// When a call took effect, and how exactly that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) drift: Duration,
}

// === impl Slot ===

impl Slot {
    /// Every slot that the call may leave, given that this was its reply; none if it cannot have been.
    pub(super) fn explain(&self, call: &Call, reply: &Reply, at: Moment) -> Vec<Self> {
        match (call, reply) {
            (Call::Reap, Reply::Reaped(_)) => self.reaped(at),
            (Call::Get(_), Reply::Found(found)) => {
                self.reads_as(found, at).then(|| self.read(found)).into_iter().collect()
            }
            (Call::Claim(request), Reply::Claim(claim)) => self.claimed(request, claim, at).into_iter().collect(),
            (call, Reply::Written(written)) => {
                let (expected, after) = self.written(call, at);
                (*written == expected).then_some(after).into_iter().collect()
            }
            (_, Reply::Claim(_) | Reply::Found(_) | Reply::Reaped(_) | Reply::Failed(_)) => Vec::new(),
        }
    }

    /// Whether the record may read like this.
    pub(super) fn reads_as(&self, found: &Found, at: Moment) -> bool {
        match (self.living(at), found) {
            (None, None) => true,
            (Some(row), Some((record, response))) => {
                let is_newer = row.fence_is_hidden && record.fence > row.record.fence;
                let fence = if is_newer { record.fence } else { row.record.fence };
                let expected = Record { fence, ..row.record.clone() };
                is_newer == row.fence_is_hidden
                    && at.settle_record(record, &expected) == expected
                    && *response == row.response
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// After a read that can be right: a fence that it showed is hidden no longer.
    fn read(&self, found: &Found) -> Self {
        match (&self.row, found) {
            (Some(row), Some((Record { fence, .. }, _))) if row.fence_is_hidden => {
                let record = Record { fence: *fence, ..row.record.clone() };
                let row = Row { record, fence_is_hidden: false, ..row.clone() };
                Self { row: Some(row), last_fence: Some(*fence) }
            }
            _ => self.clone(),
        }
    }

    fn living(&self, at: Moment) -> Option<&Row> {
        self.row.as_ref().filter(|row| !row.record.is_expired(at.now))
    }

    /// After a claim: what [`decide`] says, with the fence that was answered.
    fn claimed(&self, request: &ClaimRequest, claim: &Claim, at: Moment) -> Option<Self> {
        let row = self.row.as_ref();
        let same = |expected: &Claim| at.settle_claim(claim, expected) == *expected;
        match decide(row.map(|row| &row.record), request, at.now) {
            Decision::Answer(expected) => same(&expected).then(|| self.clone()),
            Decision::Replay { completed_at, expires_at, expires_in } => {
                let response = row?.response.clone()?.into();
                same(&Claim::Completed(Completed { response, completed_at, expires_at, expires_in }))
                    .then(|| self.clone())
            }
            Decision::Acquire { attempt, lease } => {
                let Claim::Acquired(Lease { fence, .. }) = *claim else { return None };
                let previous = row.map(|row| &row.record);
                let record = Record::acquired(request, previous, fence, (attempt, lease), at.now);
                let grew = self.last_fence.is_none_or(|last| fence > last);
                let is_explained = grew && same(&Claim::Acquired(record.leased(lease)));
                let after =
                    Self { row: Some(Row { record, response: None, fence_is_hidden: false }), last_fence: Some(fence) };
                is_explained.then_some(after)
            }
            Decision::Doubt(reason) => same(&Claim::Unknown(Doubted { reason: reason.clone(), since: at.now }))
                .then(|| self.doubted(reason, at)),
        }
    }

    /// What a write answers, and what is stored after it.
    fn written(&self, call: &Call, at: Moment) -> (Written, Self) {
        let in_flight = &[StateName::InFlight];
        let after = match call {
            Call::Extend(lease, length) => self.leased(lease, in_flight, at).map(|row| self.extended(row, *length, at)),
            Call::Complete(lease, response) => self.completed(lease, response, at),
            Call::Doubt(lease, reason) => self.leased(lease, in_flight, at).map(|_| self.doubted(reason.clone(), at)),
            Call::Release(lease) => self.leased(lease, in_flight, at).map(|row| self.given_back(row, at)),
            Call::Withdraw(_, owner) => self.withdrawn(*owner, at),
            Call::Resolve(seen, response) => self.resolved(*seen, response, at),
            Call::Purge(seen, force) => self.purged(*seen, *force, at),
            Call::Claim(_) | Call::Get(_) | Call::Reap => None,
        };
        after.map_or((Written::Stale, self.clone()), |after| (Written::Done, after))
    }

    fn leased(&self, lease: &Lease, states: &[StateName], at: Moment) -> Option<&Row> {
        self.living(at).filter(|row| {
            let is_owner = lease.owner.is_none() || row.record.owner == lease.owner;
            let is_fence = !row.fence_is_hidden && row.record.fence == lease.fence;
            is_fence && is_owner && states.contains(&row.record.state.name())
        })
    }

    fn seen(&self, seen: Seen, at: Moment) -> Option<&Record> {
        let row = self.living(at).filter(|row| !row.fence_is_hidden);
        row.map(|row| &row.record).filter(|record| seen.is_still(record))
    }

    fn extended(&self, row: &Row, length: Duration, at: Moment) -> Self {
        let mut row = row.clone();
        row.record.state = State::InFlight { lease_until: at.now.after(length) };
        row.record.expires_at = at.now.after(row.record.retention.max(length));
        Self { row: Some(row), ..self.clone() }
    }

    fn completed(&self, lease: &Lease, response: &StoredResponse, at: Moment) -> Option<Self> {
        if lease.owner.is_some() && self.leased(lease, &[StateName::Completed], at).is_some() {
            return Some(self.clone());
        }
        let row = self.leased(lease, &[StateName::InFlight, StateName::Unknown], at)?;
        Some(self.with_response(row.record.clone(), response, at))
    }

    fn with_response(&self, mut record: Record, response: &StoredResponse, at: Moment) -> Self {
        record.state = State::Completed { completed_at: at.now, status: response.status };
        record.expires_at = at.now.after(record.retention);
        let response = Some(response.clone());
        Self { row: Some(Row { record, response, fence_is_hidden: false }), ..self.clone() }
    }

    fn doubted(&self, reason: DoubtReason, at: Moment) -> Self {
        let row = self.row.clone().map(|row| Row { record: row.record.doubted(reason, at.now), ..row });
        Self { row, ..self.clone() }
    }

    fn withdrawn(&self, owner: Owner, at: Moment) -> Option<Self> {
        let row = self.living(at)?;
        let is_own = row.record.owner == Some(owner) && row.record.state.name() != StateName::Completed;
        is_own.then(|| self.given_back(row, at))
    }

    /// Nothing is left, or the abandoned record that was taken over.
    fn given_back(&self, row: &Row, at: Moment) -> Self {
        match row.record.given_back(row.record.fence, at.now) {
            Some(record) => Self { row: Some(Row { record, response: None, fence_is_hidden: true }), ..self.clone() },
            None => self.absent(),
        }
    }

    /// The owner goes, so that no execution takes the operator's response for its own.
    fn resolved(&self, seen: Seen, response: &StoredResponse, at: Moment) -> Option<Self> {
        let record = self.seen(seen, at)?;
        let is_open = matches!(record.state.name(), StateName::InFlight | StateName::Unknown);
        let resolved = Record { owner: None, ..record.clone() };
        is_open.then(|| self.with_response(resolved, response, at))
    }

    fn purged(&self, seen: Seen, force: bool, at: Moment) -> Option<Self> {
        let record = self.seen(seen, at)?;
        let is_live = record.state.name() == StateName::InFlight && !record.is_abandoned(at.now);
        (force || !is_live).then(|| self.absent())
    }

    /// A pass may leave out a record that somebody else holds just then, but never doubt a wrong one.
    fn reaped(&self, at: Moment) -> Vec<Self> {
        let forbids_takeover = |row: &Row| row.record.on_abandoned == OnAbandoned::Unknown;
        match self.living(at) {
            Some(row) if row.record.is_abandoned(at.now) && forbids_takeover(row) => {
                vec![self.clone(), self.doubted(DoubtReason::WORKER_DIED, at)]
            }
            Some(_) | None => vec![self.clone()],
        }
    }

    fn absent(&self) -> Self {
        Self { row: None, ..self.clone() }
    }
}

// === impl Moment ===

impl Moment {
    /// `actual`, or `expected` where a clock that runs on cannot tell them apart.
    fn settle(self, actual: Timestamp, expected: Timestamp) -> Timestamp {
        let difference = actual.since(expected).max(expected.since(actual));
        if difference <= self.drift { expected } else { actual }
    }

    fn settle_length(self, actual: Duration, expected: Duration) -> Duration {
        if actual.abs_diff(expected) <= self.drift { expected } else { actual }
    }

    /// What is left of the lease. A store that shares its records with others may find one held by a transaction that
    /// has not ended, and then it knows only that much: it says less, never more, and not at once.
    fn settle_pause(self, actual: Duration, expected: Duration) -> Duration {
        let is_shorter = !self.drift.is_zero() && !actual.is_zero() && actual <= expected;
        if is_shorter { expected } else { self.settle_length(actual, expected) }
    }

    fn settle_claim(self, actual: &Claim, expected: &Claim) -> Claim {
        match (actual.clone(), expected) {
            (Claim::Acquired(actual), Claim::Acquired(expected)) => Claim::Acquired(Lease {
                length: self.settle_length(actual.length, expected.length),
                created_at: self.settle(actual.created_at, expected.created_at),
                ..actual
            }),
            (Claim::Completed(actual), Claim::Completed(expected)) => Claim::Completed(Completed {
                completed_at: self.settle(actual.completed_at, expected.completed_at),
                expires_at: self.settle(actual.expires_at, expected.expires_at),
                expires_in: self.settle_length(actual.expires_in, expected.expires_in),
                ..actual
            }),
            (Claim::InFlight { retry_after: actual }, Claim::InFlight { retry_after: expected }) => {
                Claim::InFlight { retry_after: self.settle_pause(actual, *expected) }
            }
            (Claim::Unknown(actual), Claim::Unknown(expected)) => {
                Claim::Unknown(Doubted { since: self.settle(actual.since, expected.since), ..actual })
            }
            (actual, _) => actual,
        }
    }

    fn settle_record(self, actual: &Record, expected: &Record) -> Record {
        let state = match (actual.state.clone(), &expected.state) {
            (State::InFlight { lease_until: actual }, State::InFlight { lease_until: expected }) => {
                State::InFlight { lease_until: self.settle(actual, *expected) }
            }
            (State::Completed { completed_at: actual, status }, State::Completed { completed_at: expected, .. }) => {
                State::Completed { completed_at: self.settle(actual, *expected), status }
            }
            (State::Unknown { since: actual, reason }, State::Unknown { since: expected, .. }) => {
                State::Unknown { since: self.settle(actual, *expected), reason }
            }
            (actual, _) => actual,
        };
        Record {
            state,
            created_at: self.settle(actual.created_at, expected.created_at),
            expires_at: self.settle(actual.expires_at, expected.expires_at),
            ..actual.clone()
        }
    }
}
