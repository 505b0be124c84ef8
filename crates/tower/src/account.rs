//! What became of one request, for whoever logs it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use oncegate_core::RecordId;

// === types ===

/// Put one into the extensions of a request, keep a clone, and read there what became of it once it is answered. The layer
/// takes it out before the inner service is called. Requests without one cost nothing.
///
/// Its [`Outcome`](crate::Outcome) is in the response's extensions.
#[derive(Debug, Clone, Default)]
pub struct Account(Arc<Mutex<Entries>>);

/// What is known so far; what never happened stays `None`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Entries {
    /// The route that it took.
    pub route: Option<Arc<str>>,
    /// Which record it is about. Mind that it has the client's key and scope; its digest is what logs show.
    pub record: Option<RecordId>,
    /// Which attempt this request executed: 1 for the first. `None`: it executed nothing.
    pub attempt: Option<u32>,
    /// How long the store took for its claim.
    pub claim: Option<Duration>,
    /// How long the inner service took to the head of its answer.
    pub upstream: Option<Duration>,
}

// === impl Account ===

impl Account {
    /// What is known so far.
    #[must_use]
    pub fn entries(&self) -> Entries {
        self.lock().clone()
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Entries)) {
        note(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing under the lock can leave it half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
