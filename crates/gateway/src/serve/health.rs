//! Whether requests should be sent to this process.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use oncegate_core::ErrorKind;
use oncegate_tower::{Event, Observer};

use super::suspect::Suspicions;
use crate::metrics::Metrics;

// === types ===

/// What `/readyz` answers from.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_draining: AtomicBool,
    doubts_writes: AtomicBool,
    store_answered: LastTime,
    store_written: LastTime,
}

/// Why requests should go elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unready {
    /// It is about to stop.
    Draining,
    /// The store did not answer lately.
    StoreSilent,
    /// The store answers, and could not be written lately.
    StoreReadOnly,
}

/// Counts what the layer says, and learns from it about the store.
#[derive(Debug)]
pub(super) struct Observers {
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) suspicions: Arc<Suspicions>,
}

#[derive(Debug, Default)]
struct LastTime(Mutex<Option<Instant>>);

// === impl Health ===

impl Health {
    /// One try may fail, as under a burst of load, without the process being taken out of service.
    const SILENCE_MAX: Duration = Duration::from_secs(12);

    /// The process is about to stop.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// The store answered at `now`.
    pub(crate) fn store_answered(&self, now: Instant) {
        self.store_answered.set(now);
    }

    /// The store was written, or could have been, at `now`.
    pub(crate) fn store_written(&self, now: Instant) {
        self.doubts_writes.store(false, Ordering::SeqCst);
        self.store_written.set(now);
    }

    /// A write failed.
    pub(super) fn doubt_writes(&self) {
        self.doubts_writes.store(true, Ordering::SeqCst);
    }

    /// Whether a write failed since the last one that did not.
    pub(super) fn doubts_writes(&self) -> bool {
        self.doubts_writes.load(Ordering::SeqCst)
    }

    /// Whether requests should come here.
    pub(crate) fn ready(&self, now: Instant) -> Result<(), Unready> {
        if self.is_draining.load(Ordering::SeqCst) {
            return Err(Unready::Draining);
        }
        if !self.store_answered.is_within(Self::SILENCE_MAX, now) {
            return Err(Unready::StoreSilent);
        }
        if !self.store_written.is_within(Self::SILENCE_MAX, now) {
            return Err(Unready::StoreReadOnly);
        }
        Ok(())
    }
}

// === impl Unready ===

impl Unready {
    /// For people.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::StoreSilent => "the store does not answer",
            Self::StoreReadOnly => "the store cannot be written",
        }
    }
}

// === impl Observers ===

impl Observer for Observers {
    fn observe(&self, event: &Event<'_>) {
        if let Event::StoreFailed { verb, kind } = *event
            && is_doubtful(verb, kind)
        {
            self.health.doubt_writes();
        }
        if let Event::Suspected { suspicion } = *event {
            self.suspicions.add(suspicion);
        }
        self.metrics.observe(event);
    }
}

/// Whether this failure is one that the next write would likely meet too.
fn is_doubtful(verb: &str, kind: ErrorKind) -> bool {
    verb != "get" && !matches!(kind, ErrorKind::Overloaded | ErrorKind::Collision)
}

// === impl LastTime ===

impl LastTime {
    fn set(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn is_within(&self, length: Duration, now: Instant) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.saturating_duration_since(last) <= length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_while_the_store_answered_and_was_written_lately_and_nothing_drains() {
        let (health, start) = (Health::default(), Instant::now());
        assert_eq!(health.ready(start), Err(Unready::StoreSilent));
        health.store_answered(start);
        assert_eq!(health.ready(start), Err(Unready::StoreReadOnly));
        health.store_written(start);
        assert_eq!(health.ready(start + Health::SILENCE_MAX), Ok(()));
        let late = start + Health::SILENCE_MAX + Duration::from_millis(1);
        assert_eq!(health.ready(late), Err(Unready::StoreSilent));
        health.store_answered(late);
        assert_eq!(health.ready(late), Err(Unready::StoreReadOnly));
        health.store_written(late);
        health.drain();
        assert_eq!(health.ready(late), Err(Unready::Draining));
    }

    #[test]
    fn a_failed_write_is_doubted_until_one_succeeds() {
        let routes = oncegate_tower::Routes::all(oncegate_tower::Route::gateway("all", oncegate_core::Backend::Plain));
        let health = Arc::new(Health::default());
        let observers = Observers {
            metrics: Arc::new(Metrics::new(&routes)),
            health: Arc::clone(&health),
            suspicions: Arc::default(),
        };
        for (verb, kind) in [("claim", ErrorKind::Overloaded), ("get", ErrorKind::Unavailable)] {
            observers.observe(&Event::StoreFailed { verb, kind });
            assert!(!health.doubts_writes(), "{verb} {kind:?}");
        }
        observers.observe(&Event::StoreFailed { verb: "claim", kind: ErrorKind::Full });
        assert!(health.doubts_writes());
        health.store_written(Instant::now());
        assert!(!health.doubts_writes());
    }
}
