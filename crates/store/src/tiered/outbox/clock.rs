//! What PostgreSQL's clock shows, without asking it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use oncegate_core::Timestamp;

/// How far PostgreSQL's clock was ahead of ours when it last answered. What is said from then on is too early by the time
/// that the answer took, and never too late.
#[derive(Debug)]
pub(in super::super) struct BackClock {
    begin: Instant,
    ahead: AtomicI64,
}

/// It has not answered yet.
const UNKNOWN: i64 = i64::MIN;

// === impl BackClock ===

impl BackClock {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), ahead: AtomicI64::new(UNKNOWN) }
    }

    /// PostgreSQL's clock showed this just now, moved on by a test by `offset`.
    pub(in super::super) fn note(&self, shown: Timestamp, offset: Duration) {
        let ahead = shown.as_micros() - micros(offset) - micros(self.begin.elapsed());
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    pub(in super::super) fn now(&self, offset: Duration) -> Option<Timestamp> {
        match self.ahead.load(Ordering::Relaxed) {
            UNKNOWN => None,
            ahead => Some(Timestamp::from_micros(ahead + micros(offset) + micros(self.begin.elapsed()))),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
