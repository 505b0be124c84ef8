//! The one atomic attempt to become the executor, and the rules that judge it.

use std::{sync::Arc, time::Duration};

use crate::{
    Comparison, DoubtReason, Fence, Fingerprint, KeySpelling, Lease, OnAbandoned, Operation, Owner, Policy, Record,
    RecordId, State, StateName, StoredResponse, Timestamp,
};

// === types ===

/// What a claim is made with.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Scope and key.
    pub id: RecordId,
    /// What must not differ from the first request.
    pub fingerprint: Fingerprint,
    /// A fresh token for each request, kept when the same claim is sent again. `None`: a claim whose
    /// reply is lost cannot recognise itself and waits for its own lease to end.
    pub owner: Option<Owner>,
    /// What the request asks for.
    pub operation: Operation,
    /// How the key was spelled.
    pub spelling: KeySpelling,
    /// The terms of a lease, and whether a takeover is allowed.
    pub policy: Arc<Policy>,
}

/// What a claim answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The caller is the executor.
    Acquired(Lease),
    /// Done before: replay this.
    Completed(Completed),
    /// Somebody holds a live lease.
    InFlight {
        /// What is left of that lease.
        retry_after: Duration,
    },
    /// The key belongs to another request.
    Mismatch(FirstUse),
    /// Nobody can tell whether the effect happened.
    Unknown(Doubted),
    /// Recorded under other fingerprint rules: neither replayed nor executed.
    RulesChanged {
        /// The record's fingerprint, so that a caller that still knows those rules can ask again.
        recorded: Fingerprint,
    },
}

/// A stored response and its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// What to replay. Shared, because caches and waiting repeats hold it too.
    pub response: Arc<StoredResponse>,
    /// When it was stored, by the store's clock.
    pub completed_at: Timestamp,
    /// When the key will be new again, by the store's clock: what clients are told.
    pub expires_at: Timestamp,
    /// What was left of the record's life when the store was asked; count it on a monotonic clock.
    pub expires_in: Duration,
}

/// The request that a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstUse {
    /// Its method and path.
    pub operation: Operation,
    /// What became of it.
    pub state: StateName,
}

/// An outcome that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubted {
    /// What was learnt.
    pub reason: DoubtReason,
    /// Since when.
    pub since: Timestamp,
}

/// What a store must do to answer a claim; see [`decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Write an in-flight record with the next fence (see [`Record::acquired`]) and answer
    /// [`Claim::Acquired`].
    Acquire {
        /// The attempt that begins.
        attempt: u32,
        /// The lease it gets.
        lease: Duration,
    },
    /// Write the unknown state (see [`Record::doubted`]) and answer [`Claim::Unknown`].
    Doubt(DoubtReason),
    /// Write nothing; read the response and answer [`Claim::Completed`].
    Replay {
        /// When it was stored.
        completed_at: Timestamp,
        /// When the record ends.
        expires_at: Timestamp,
        /// What is left of its life.
        expires_in: Duration,
    },
    /// Write nothing and answer this.
    Answer(Claim),
}

// === the specification ===

/// Judges a claim: the specification that every store restates in its own language.
///
/// The order is fixed: an expired record is absent; another fingerprint is a mismatch, also while
/// the first request runs; a completed record is replayed; a live lease is in flight; an abandoned
/// record goes by the policy, and a takeover needs both the record's and the request's.
#[must_use]
pub fn decide(record: Option<&Record>, request: &ClaimRequest, now: Timestamp) -> Decision {
    let Some(record) = record.filter(|record| !record.is_expired(now)) else {
        return Decision::Acquire { attempt: 1, lease: request.policy.lease };
    };
    match record.fingerprint.compare(&request.fingerprint) {
        Comparison::Same => {}
        Comparison::Different => return Decision::Answer(Claim::Mismatch(record.first_use())),
        Comparison::Incomparable => {
            return Decision::Answer(Claim::RulesChanged { recorded: record.fingerprint });
        }
    }
    match &record.state {
        State::Completed { completed_at, .. } => {
            let (completed_at, expires_at) = (*completed_at, record.expires_at);
            Decision::Replay { completed_at, expires_at, expires_in: expires_at.since(now) }
        }
        State::Unknown { since, reason } => {
            Decision::Answer(Claim::Unknown(Doubted { reason: reason.clone(), since: *since }))
        }
        State::InFlight { lease_until } if now < *lease_until => {
            let remaining = lease_until.since(now);
            match record.is_owned_by(request) {
                true => Decision::Answer(Claim::Acquired(record.leased(remaining))),
                false => Decision::Answer(Claim::InFlight { retry_after: remaining }),
            }
        }
        State::InFlight { .. } => decide_abandoned(record, request),
    }
}

/// The lease ended and nothing was completed.
fn decide_abandoned(record: &Record, request: &ClaimRequest) -> Decision {
    if record.is_owned_by(request) {
        // Its own reply was lost for longer than the lease. Nothing was sent, so this is neither a
        // takeover nor a doubt; the new fence shuts out the lost reply, should it still arrive.
        return Decision::Acquire { attempt: record.attempt, lease: request.policy.lease };
    }
    match (record.on_abandoned, request.policy.on_abandoned) {
        (OnAbandoned::Takeover, OnAbandoned::Takeover) if record.attempt >= request.policy.max_attempts => {
            Decision::Doubt(DoubtReason::ATTEMPTS_EXHAUSTED)
        }
        (OnAbandoned::Takeover, OnAbandoned::Takeover) => {
            let doubled = (record.lease * 2).min(Policy::LEASE_DOUBLED_MAX);
            let lease = doubled.max(request.policy.lease).min(request.policy.retention);
            Decision::Acquire { attempt: record.attempt + 1, lease }
        }
        (OnAbandoned::Unknown, OnAbandoned::Takeover | OnAbandoned::Unknown)
        | (OnAbandoned::Takeover, OnAbandoned::Unknown) => Decision::Doubt(DoubtReason::WORKER_DIED),
    }
}

// === impl Record: what a decision writes ===

impl Record {
    /// The row that [`Decision::Acquire`] writes. A takeover (`previous` is alive) keeps what
    /// belongs to the first request: its operation, its spelling, its policy and its birth.
    #[must_use]
    pub fn acquired(
        request: &ClaimRequest,
        previous: Option<&Self>,
        fence: Fence,
        (attempt, lease): (u32, Duration),
        now: Timestamp,
    ) -> Self {
        let previous = previous.filter(|record| !record.is_expired(now));
        let policy = &request.policy;
        Self {
            id: request.id.clone(),
            operation: previous.map_or_else(|| request.operation.clone(), |record| record.operation.clone()),
            spelling: previous.map_or(request.spelling, |record| record.spelling),
            fingerprint: request.fingerprint,
            backend: previous.map_or(policy.backend, |record| record.backend),
            on_abandoned: previous.map_or(policy.on_abandoned, |record| record.on_abandoned),
            fence,
            owner: request.owner,
            attempt,
            lease,
            retention: policy.retention,
            created_at: previous.map_or(now, |record| record.created_at),
            expires_at: now.after(policy.retention),
            state: State::InFlight { lease_until: now.after(lease) },
        }
    }

    /// The row that [`Decision::Doubt`] and the verb *doubt* write.
    #[must_use]
    pub fn doubted(&self, reason: DoubtReason, now: Timestamp) -> Self {
        Self { expires_at: now.after(self.retention), state: State::Unknown { since: now, reason }, ..self.clone() }
    }

    /// What a lease that was given back, by *release* or *withdraw*, leaves of this row. `None`: nothing, the
    /// key is new.
    ///
    /// A takeover leaves the abandoned record that it took over. An earlier attempt may have had an effect, so
    /// the key stays bound to the first request and to the spelling under which the backend may know it. What
    /// was given back counts as no attempt. The fence is a new one that nobody holds: whatever was sent under
    /// the old one, a second release as well, is stale.
    #[must_use]
    pub fn given_back(&self, fence: Fence, now: Timestamp) -> Option<Self> {
        (self.attempt > 1).then(|| Self {
            fence,
            owner: None,
            attempt: self.attempt - 1,
            // The next takeover doubles it again.
            lease: self.lease / 2,
            expires_at: now.after(self.retention),
            state: State::InFlight { lease_until: now },
            ..self.clone()
        })
    }

    /// The lease that this in-flight row gives to whoever acquired it.
    #[must_use]
    pub fn leased(&self, length: Duration) -> Lease {
        Lease {
            record: self.id.digest(),
            fence: self.fence,
            owner: self.owner,
            attempt: self.attempt,
            length,
            spelling: self.spelling,
            created_at: self.created_at,
        }
    }

    fn first_use(&self) -> FirstUse {
        FirstUse { operation: self.operation.clone(), state: self.state.name() }
    }

    fn is_owned_by(&self, request: &ClaimRequest) -> bool {
        self.owner.is_some() && self.owner == request.owner
    }
}

#[cfg(test)]
mod tests;
