//! What a store on SQLite can be told. Every limit has a name and a default.

use std::{sync::Arc, time::Duration};

use oncegate_core::{Clock, SystemClock};

use crate::observer::{Observer, Unobserved};

// === types ===

/// How a file is opened; [`Options::default`] is what a service wants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What decides when leases and records end. Default: the system's clock.
    pub clock: Arc<dyn Clock>,
    /// What a commit survives. Default: [`Synchronous::Full`].
    pub synchronous: Synchronous,
    /// How long to wait for another process's transaction. Default: 1 s, less than the time that
    /// callers give a store.
    pub busy_timeout: Duration,
    /// How many verbs may wait for each of the two threads. Default: 8,192, more than a second's work;
    /// a longer queue would only make callers wait for what they have given up.
    pub queue_max: usize,
    /// How many verbs one transaction may hold. Default: 1,024; larger ones gain nothing and delay
    /// their first verb.
    pub batch_max: usize,
    /// After how many bytes of response bodies a transaction is committed. Default: 8 MiB.
    pub batch_bytes_max: usize,
    /// How large the file may grow. A store that reaches it refuses what needs room, as on a full
    /// disk. Default: `None`, as large as the disk.
    pub file_bytes_max: Option<u64>,
    /// Who is told figures of its work. Default: nobody.
    pub observer: Arc<dyn Observer>,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A crash of the process, of the operating system, and the loss of power.
    #[default]
    Full,
    /// A crash of the process. After a loss of power the latest claims may be gone, and a request
    /// can be executed a second time.
    Normal,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(1),
            queue_max: 8_192,
            batch_max: 1_024,
            batch_bytes_max: 8 << 20,
            file_bytes_max: None,
            observer: Arc::new(Unobserved),
        }
    }
}

impl Options {
    /// The defaults, on another clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..Self::default() }
    }
}

// === impl Synchronous ===

impl Synchronous {
    /// The word that SQLite uses.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}
