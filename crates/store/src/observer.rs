//! What a store reports of itself while it works, for whoever counts.
//!
//! An observer is handed to a store by its options when it opens, and is told figures that nobody outside can see. To
//! report a new one, add an [`Event`]; the gateway gives it a name in its `metrics/of_store.rs`. Figures of a moment
//! ([`Event::Size`], [`Event::Breaker`], [`Event::Outbox`]) are told again whenever they may have changed, the first
//! time when they are first known, and the last one told holds.

use std::time::Duration;

// === types ===

/// Receives what a store reports; the default of every store is to report to nobody.
///
/// Called by the tasks and threads that carry verbs out: it must neither block nor allocate.
pub trait Observer: Send + Sync + std::fmt::Debug + 'static {
    /// The store has something to report.
    fn observe(&self, event: &Event);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

/// Something to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A transaction carries so many verbs.
    Batch {
        /// How many.
        verbs: usize,
    },
    /// How much room the records and their responses take, indexes included.
    Size {
        /// How much.
        bytes: u64,
    },
    /// Whether the front is left alone since it failed, and the back does all the work.
    Breaker {
        /// It is.
        is_open: bool,
    },
    /// An entry of the outbox that cannot be applied was set aside.
    Poison,
    /// A completion of the outbox that somebody was told of came too late: the back says something else of the record.
    TooLate,
    /// What the front has acknowledged and the back does not have yet.
    Outbox {
        /// How many writes.
        entries: u64,
        /// How old the oldest of them is; zero if there is none.
        lag: Duration,
    },
}

// === impl Unobserved ===

impl Observer for Unobserved {
    fn observe(&self, _event: &Event) {}
}
