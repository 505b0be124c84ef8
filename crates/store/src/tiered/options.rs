//! What a tiered store can be told. Every limit has a name and a default.

use std::time::Duration;

use crate::{postgres, redis};

/// How a store works; [`Options::default`] is what a service wants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long a claim may take with all that it asks. Default: 2 s.
    pub timeout: Duration,
    /// How long the front may take to answer before PostgreSQL is asked instead. Default: 250 ms, far more than it
    /// takes, and little of the timeout.
    pub front_timeout: Duration,
    /// How long a claim waits for another one that is asking PostgreSQL, before it is in flight. Default: 250 ms.
    pub wait: Duration,
    /// What this gateway wants; that of the gateway that was started last counts for all. Default: authoritative.
    pub durability: Durability,
    /// How long PostgreSQL may take to have what the front has acknowledged, while an outbox is open. Default: 2 s.
    pub outbox_limit: Duration,
    /// What PostgreSQL's store is told.
    pub back: postgres::Options,
    /// What the front's connections are told; of these only what concerns connections means something here.
    pub front: redis::Options,
}

/// What is lost with the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: PostgreSQL has a claim before anything is executed.
    Authoritative,
    /// What PostgreSQL does not have yet, if the gateway that has it in memory is lost too.
    Outbox,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            front_timeout: Duration::from_millis(250),
            wait: Duration::from_millis(250),
            durability: Durability::Authoritative,
            outbox_limit: Duration::from_secs(2),
            back: postgres::Options::default(),
            front: redis::Options::default(),
        }
    }
}

impl Options {
    /// For how long no new key may be claimed after an outbox was closed: a claim that has been looked for in PostgreSQL may
    /// be taken until its token ends, and PostgreSQL may have it as late as is allowed. At least two seconds, in which each
    /// gateway has heard of it.
    #[must_use]
    pub fn quiet(&self) -> Duration {
        (self.outbox_limit + self.timeout).max(2 * super::generation::PAUSE)
    }

    /// With a timeout of so long, and what is a part of it.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let default = Self::default();
        let part = |most: Duration| most.min(timeout / 8);
        Self { timeout, front_timeout: part(default.front_timeout), wait: part(default.wait), ..self }
    }
}
