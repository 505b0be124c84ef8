//! Whether requests should be sent to this process.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// What `/readyz` answers from.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_draining: AtomicBool,
    store_answered: Mutex<Option<Instant>>,
}

/// Why requests should go elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unready {
    /// It is about to stop.
    Draining,
    /// The store did not answer lately.
    StoreSilent,
}

impl Health {
    /// One count of the records may fail, as under a burst of load, without the process being taken out of service.
    const SILENCE_MAX: Duration = Duration::from_secs(12);

    /// The process is about to stop.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// The store answered at `now`.
    pub(crate) fn store_answered(&self, now: Instant) {
        *self.store_answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether requests should come here.
    pub(crate) fn ready(&self, now: Instant) -> Result<(), Unready> {
        if self.is_draining.load(Ordering::SeqCst) {
            return Err(Unready::Draining);
        }
        let answered = *self.store_answered.lock().unwrap_or_else(PoisonError::into_inner);
        match answered {
            Some(answered) if now.saturating_duration_since(answered) <= Self::SILENCE_MAX => Ok(()),
            Some(_) | None => Err(Unready::StoreSilent),
        }
    }
}

impl Unready {
    /// For people.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::StoreSilent => "the store does not answer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_while_the_store_answered_lately_and_nothing_drains() {
        let (health, start) = (Health::default(), Instant::now());
        assert_eq!(health.ready(start), Err(Unready::StoreSilent));
        health.store_answered(start);
        assert_eq!(health.ready(start + Health::SILENCE_MAX), Ok(()));
        let late = start + Health::SILENCE_MAX + Duration::from_millis(1);
        assert_eq!(health.ready(late), Err(Unready::StoreSilent));
        health.store_answered(late);
        health.drain();
        assert_eq!(health.ready(late), Err(Unready::Draining));
    }
}
