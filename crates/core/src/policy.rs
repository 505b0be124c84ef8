//! What an operator declares about a backend, and what follows from it.

use std::time::Duration;

// === types ===

/// What the backend guarantees about a repeated or interrupted request. Declared, never inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Nothing: if the outcome is lost, nobody can tell whether the effect happened.
    Plain,
    /// It dedupes the forwarded key itself.
    Idempotent,
    /// It completes the record in its own database transaction.
    Transactional,
}

/// What may happen to a record whose lease ended while nothing was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnAbandoned {
    /// The first repeat executes again, under a new and larger fence.
    Takeover,
    /// The record becomes unknown and waits for an operator.
    Unknown,
}

/// What an answer of the backend means for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// A decision: stored and replayed.
    Store,
    /// Nothing happened: the claim is deleted and a repeat executes.
    Release,
    /// It does not tell whether the effect happened.
    Ambiguous,
}

/// Which answers are stored, released or ambiguous, by status code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTable {
    request_timeout: Disposition,
    overrides: Vec<(u16, Disposition)>,
}

/// How requests of one route are guarded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// What the backend guarantees.
    pub backend: Backend,
    /// What may happen when a lease ends and nothing was completed.
    pub on_abandoned: OnAbandoned,
    /// How many executions one record may see; then it becomes unknown.
    pub max_attempts: u32,
    /// How long the right to execute lasts without being extended.
    pub lease: Duration,
    /// How long every state of a record lives, counted from its last transition.
    pub retention: Duration,
    /// What each status of the backend means.
    pub statuses: StatusTable,
}

/// A policy that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// See [`Policy::LEASE_MIN`] and [`Policy::LEASE_MAX`].
    #[error("lease length {lease:?} is out of range: 100 ms to 1 h are allowed")]
    Lease {
        /// The value.
        lease: Duration,
    },
    /// See [`Policy::RETENTION_MAX`].
    #[error("retention {retention:?} is too long: at most 400 days are allowed")]
    Retention {
        /// The value.
        retention: Duration,
    },
    /// The record would be gone while its lease is held.
    #[error("lease length {lease:?} is longer than retention {retention:?}: the record must outlive its lease")]
    LeaseOutlivesRecord {
        /// The lease.
        lease: Duration,
        /// The retention.
        retention: Duration,
    },
    /// Nothing could ever execute.
    #[error("max_attempts 0 is too small: the minimum is 1")]
    NoAttempt,
}

// === impl Backend ===

impl Backend {
    /// The word that configuration and stores use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Idempotent => "idempotent",
            Self::Transactional => "transactional",
        }
    }

    /// Reads [`Self::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Plain, Self::Idempotent, Self::Transactional].into_iter().find(|backend| backend.as_str() == word)
    }

    /// What follows from it unless the operator says otherwise.
    #[must_use]
    pub fn on_abandoned(self) -> OnAbandoned {
        match self {
            Self::Plain => OnAbandoned::Unknown,
            Self::Idempotent | Self::Transactional => OnAbandoned::Takeover,
        }
    }
}

// === impl OnAbandoned ===

impl OnAbandoned {
    /// The word that configuration and stores use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Takeover => "takeover",
            Self::Unknown => "unknown",
        }
    }

    /// Reads [`Self::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Takeover, Self::Unknown].into_iter().find(|rule| rule.as_str() == word)
    }
}

// === impl StatusTable ===

impl StatusTable {
    /// The defaults of the gateway, where 408 is the upstream's word that it did not get the request.
    #[must_use]
    pub fn gateway() -> Self {
        Self { request_timeout: Disposition::Release, overrides: Vec::new() }
    }

    /// The defaults of the layer, where 408 comes from a timeout around a handler that was cut off.
    #[must_use]
    pub fn layer() -> Self {
        Self { request_timeout: Disposition::Ambiguous, overrides: Vec::new() }
    }

    /// Declares what `status` means; wins over everything else.
    #[must_use]
    pub fn with(mut self, status: u16, disposition: Disposition) -> Self {
        self.overrides.push((status, disposition));
        self
    }

    fn declared(&self, status: u16) -> Option<Disposition> {
        self.overrides.iter().rev().find(|(declared, _)| *declared == status).map(|&(_, disposition)| disposition)
    }

    fn default_of(&self, status: u16) -> Disposition {
        match status {
            401 | 403 | 407 | 425 | 429 | 503 => Disposition::Release,
            408 => self.request_timeout,
            502 | 504 => Disposition::Ambiguous,
            _ => Disposition::Store,
        }
    }
}

// === impl Policy ===

impl Policy {
    /// Shorter leases end between two extensions on a busy machine.
    pub const LEASE_MIN: Duration = Duration::from_millis(100);
    /// Longer leases block a key for too long after a crash; extend a shorter one instead.
    pub const LEASE_MAX: Duration = Duration::from_hours(1);
    /// Where doubling by takeovers ends.
    pub const LEASE_DOUBLED_MAX: Duration = Duration::from_mins(10);
    /// More than a year is an archive, not a guard.
    pub const RETENTION_MAX: Duration = Duration::from_hours(400 * 24);

    /// The defaults before a backend of this kind, as a gateway sees it.
    #[must_use]
    pub fn gateway(backend: Backend) -> Self {
        Self {
            backend,
            on_abandoned: backend.on_abandoned(),
            max_attempts: 5,
            lease: Duration::from_secs(30),
            retention: Duration::from_hours(24),
            statuses: StatusTable::gateway(),
        }
    }

    /// The defaults around a handler of this kind in the same process.
    #[must_use]
    pub fn layer(backend: Backend) -> Self {
        Self { statuses: StatusTable::layer(), ..Self::gateway(backend) }
    }

    /// Refuses what cannot be kept.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        let (lease, retention) = (self.lease, self.retention);
        if !(Self::LEASE_MIN..=Self::LEASE_MAX).contains(&lease) {
            return Err(PolicyError::Lease { lease });
        }
        if retention > Self::RETENTION_MAX {
            return Err(PolicyError::Retention { retention });
        }
        if lease > retention {
            return Err(PolicyError::LeaseOutlivesRecord { lease, retention });
        }
        if self.max_attempts == 0 {
            return Err(PolicyError::NoAttempt);
        }
        Ok(())
    }

    /// What an answer with `status` means for the record.
    ///
    /// An idempotent or transactional backend says 409 or 425 also while it handles an earlier
    /// attempt, so those do not tell. A transactional backend's own 5xx without its completion
    /// proves that nothing committed; 502 and 504 may come from a hop in between and prove nothing.
    #[must_use]
    pub fn disposition(&self, status: u16) -> Disposition {
        if let Some(declared) = self.statuses.declared(status) {
            return declared;
        }
        let default = self.statuses.default_of(status);
        match (self.backend, status) {
            (Backend::Idempotent | Backend::Transactional, 409 | 425) => Disposition::Ambiguous,
            (Backend::Transactional, 500..=599) if default == Disposition::Store => Disposition::Release,
            (Backend::Plain | Backend::Idempotent | Backend::Transactional, _) => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_stored_and_refusals_released() {
        let policy = Policy::gateway(Backend::Plain);
        for status in [200, 201, 204, 303, 400, 402, 404, 409, 410, 411, 417, 418, 422, 451, 500, 501, 505, 507] {
            assert_eq!(policy.disposition(status), Disposition::Store, "{status}");
        }
        for status in [401, 403, 407, 408, 425, 429, 503] {
            assert_eq!(policy.disposition(status), Disposition::Release, "{status}");
        }
        for status in [502, 504] {
            assert_eq!(policy.disposition(status), Disposition::Ambiguous, "{status}");
        }
        assert_eq!(Policy::layer(Backend::Plain).disposition(408), Disposition::Ambiguous);
    }

    #[test]
    fn a_backend_with_its_own_guard_may_answer_for_an_earlier_attempt() {
        for backend in [Backend::Idempotent, Backend::Transactional] {
            assert_eq!(Policy::gateway(backend).disposition(409), Disposition::Ambiguous);
            assert_eq!(Policy::gateway(backend).disposition(425), Disposition::Ambiguous);
        }
        let transactional = Policy::gateway(Backend::Transactional);
        assert_eq!(transactional.disposition(500), Disposition::Release);
        assert_eq!(transactional.disposition(502), Disposition::Ambiguous);
        assert_eq!(Policy::gateway(Backend::Idempotent).disposition(500), Disposition::Store);
    }

    #[test]
    fn declared_statuses_win() {
        let mut policy = Policy::gateway(Backend::Transactional);
        policy.statuses = StatusTable::gateway().with(500, Disposition::Store).with(402, Disposition::Release);
        assert_eq!(policy.disposition(500), Disposition::Store);
        assert_eq!(policy.disposition(402), Disposition::Release);
    }

    #[test]
    fn policies_that_cannot_be_kept_are_refused() {
        let with = |lease, retention, max_attempts| {
            let policy = Policy { lease, retention, max_attempts, ..Policy::gateway(Backend::Plain) };
            policy.check()
        };
        let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
        assert_eq!(with(second, second, 1), Ok(()));
        assert_eq!(with(Duration::ZERO, day, 1), Err(PolicyError::Lease { lease: Duration::ZERO }));
        assert!(matches!(with(2 * second, second, 1), Err(PolicyError::LeaseOutlivesRecord { .. })));
        assert!(matches!(with(second, 401 * day, 1), Err(PolicyError::Retention { .. })));
        assert_eq!(with(second, day, 0), Err(PolicyError::NoAttempt));
    }
}
