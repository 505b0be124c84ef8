//! What a store on Redis can be told. Every limit has a name and a default.

use std::{sync::Arc, time::Duration};

use oncegate_core::Clock;

/// How a store works; [`Options::default`] is what a service wants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// For how long claims are refused after Redis may have lost what it acknowledged: it is empty, it was restarted,
    /// or a replica was promoted. As long as the longest lease, so that whoever was executing then has ended; zero
    /// switches it off. Default: 30 s, a lease of the gateway.
    pub cold: Duration,
    /// How many replicas must have a claim or a completion before it is answered; fewer are an error. Default: 0.
    /// Redis may still lose what a replica has, but only together with that replica.
    pub wait_replicas: u32,
    /// How long replicas are waited for. Default: 500 ms.
    pub wait_timeout: Duration,
    /// Goes on where Redis may evict records, and so execute a second time. Default: no.
    pub allow_eviction: bool,
    /// How long an answer may take before the call fails. Default: 10 s.
    pub reply_timeout: Duration,
    /// For tests: what decides when leases and records end, in place of the server's clock.
    #[doc(hidden)]
    pub clock: Option<Arc<dyn Clock>>,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            cold: Duration::from_secs(30),
            wait_replicas: 0,
            wait_timeout: Duration::from_millis(500),
            allow_eviction: false,
            reply_timeout: Duration::from_secs(10),
            clock: None,
        }
    }
}

impl Options {
    /// A test's time in microseconds; `None`: the server's.
    pub(super) fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_micros())
    }
}
