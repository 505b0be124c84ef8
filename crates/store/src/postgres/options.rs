//! What a store on PostgreSQL can be told. Every limit has a name and a default.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::value::Span;
use crate::observer::{Observer, Unobserved};

// === types ===

/// How a store works; [`Options::default`] is what a service wants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How many connections carry batches; records are divided among them by their digests. Default: 2, so that
    /// one batch is prepared while another is synced.
    pub lanes: usize,
    /// How many verbs may wait for each lane. Default: 8,192; a longer queue would only make callers wait for what
    /// they have given up.
    pub queue_max: usize,
    /// How many verbs one transaction may hold. Default: 256; larger ones gain little and delay their first verb.
    pub batch_max: usize,
    /// How many bytes of response bodies one transaction may hold, unless a single one has more. Default: 8 MiB.
    pub batch_bytes_max: usize,
    /// How long a transaction may take before its connection is given up; it is never cancelled. Default: 10 s.
    pub reply_timeout: Duration,
    /// Who is told figures of its work. Default: nobody.
    pub observer: Arc<dyn Observer>,
    /// For tests: how far the store's clock is ahead of the server's.
    #[doc(hidden)]
    pub clock_offset: ClockOffset,
}

/// For tests: microseconds that a test may add to while the store works.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct ClockOffset(Arc<AtomicU64>);

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            lanes: 2,
            queue_max: 8_192,
            batch_max: 256,
            batch_bytes_max: 8 << 20,
            reply_timeout: Duration::from_secs(10),
            observer: Arc::new(Unobserved),
            clock_offset: ClockOffset::default(),
        }
    }
}

// === impl ClockOffset ===

impl ClockOffset {
    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// How far it was moved.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// What each statement adds to the server's clock.
    pub(super) fn span(&self) -> Span {
        Span(self.get())
    }
}
