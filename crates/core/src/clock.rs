//! The store's clock. Nothing else decides when a lease or a record ends.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime},
};

// === types ===

/// A moment on a store's clock: microseconds since 1970-01-01T00:00:00Z, always UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Where a store without a server asks for the time; tests inject their own.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The operating system's wall clock, for stores that live in one process (memory, SQLite).
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

// === impl Timestamp ===

impl Timestamp {
    /// A moment from microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment `duration` later; saturates at the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// How long from `earlier` to this moment; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

// === impl SystemClock ===

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp(micros(since_epoch.unwrap_or_default()))
    }
}

// === impl ManualClock ===

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock on.
    pub fn advance(&self, duration: Duration) {
        self.0.fetch_add(micros(duration), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(Timestamp(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
