//! What was done with a request, for response extensions, logs and metrics.

use std::time::Duration;

use oncegate_core::{ErrorKind, Fence, Suspicion};

use crate::UpstreamError;

// === types ===

/// What was done with one request; see [`Outcome::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ran, and this is its own response.
    Executed,
    /// It ran before, and this is the stored response (or the word that it was not kept).
    Replayed,
    /// Somebody else runs it.
    InFlight,
    /// The key belongs to another request, or was recorded under other fingerprint rules.
    Mismatch,
    /// Nobody can tell whether it ran.
    Unknown,
    /// Refused before the store was asked: key, scope or size.
    Rejected,
    /// The store could not be asked.
    Unavailable,
    /// Not guarded: no key, another method, or failed open.
    Bypassed,
}

/// Receives what happens, as it happens; the default of every implementation is to look away.
///
/// Called on the request path: it must neither block nor allocate much.
pub trait Observer: Send + Sync + std::fmt::Debug + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request of this route was answered.
    Answered {
        /// The route's name.
        route: &'a str,
        /// What was done.
        outcome: Outcome,
        /// The status code of the answer.
        status: u16,
    },
    /// An unguarded request has no answer; whoever called the layer makes one of its error.
    Failed {
        /// The route's name.
        route: &'a str,
        /// The inner service's, if it is of this type.
        error: Option<&'a UpstreamError>,
    },
    /// The store answered a claim.
    Claimed {
        /// How long it took.
        duration: Duration,
    },
    /// A response was stored.
    Completed {
        /// How long it took.
        duration: Duration,
    },
    /// The inner service answered with a response head.
    Executed {
        /// The route's name.
        route: &'a str,
        /// How long it took.
        duration: Duration,
    },
    /// An abandoned record was taken over.
    TakenOver {
        /// The new attempt.
        attempt: u32,
    },
    /// A repeat was answered from what this process knows, without the store.
    Coalesced,
    /// A write came too late: somebody took over, or an operator acted. Nothing was changed.
    Stale {
        /// The verb.
        verb: &'static str,
        /// The fence that is out of date.
        fence: Fence,
    },
    /// The store failed.
    StoreFailed {
        /// The verb.
        verb: &'static str,
        /// How.
        kind: ErrorKind,
    },
    /// An outcome was lost.
    Doubted,
    /// A response was not kept for replays; a marker was.
    Marked,
    /// The anonymous scope was used.
    Anonymous,
    /// One key and fingerprint were seen in two scopes: what names the caller changes between retries.
    SplitScope,
    /// One request of one caller was executed under two keys: a client that makes a new key for each repeat. Told once
    /// the second was executed, as far as this process has seen both.
    Suspected {
        /// The two records.
        suspicion: &'a Suspicion,
    },
    /// A transactional backend answered 2xx without completing the record itself.
    Uncooperative,
    /// The store was down and the route is declared `fail_open`.
    FailedOpen,
    /// The client left before the answer.
    ClientLeft,
}

// === impl Outcome ===

impl Outcome {
    /// Every outcome, for metrics.
    pub const ALL: [Self; 8] = [
        Self::Executed,
        Self::Replayed,
        Self::InFlight,
        Self::Mismatch,
        Self::Unknown,
        Self::Rejected,
        Self::Unavailable,
        Self::Bypassed,
    ];

    /// What was done with the request of this response of the layer. Every response to a guarded request
    /// carries its outcome in its extensions; one without was bypassed.
    #[must_use]
    pub fn of<B>(response: &http::Response<B>) -> Self {
        response.extensions().get().copied().unwrap_or(Self::Bypassed)
    }

    /// The word that logs and metrics use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::Unknown => "unknown",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::Bypassed => "bypassed",
        }
    }
}

// === impl Unobserved ===

impl Observer for Unobserved {
    fn observe(&self, _event: &Event<'_>) {}
}
