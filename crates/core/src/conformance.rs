//! The suite that every store runs.
//!
//! Two judges. [`run`] plays named cases, each a sentence of the protocol, each on an empty store.
//! [`histories`] plays random rounds of truly concurrent calls and asks whether some order of them is
//! explained by [`decide`](crate::decide). A store is ready when both are silent:
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # use oncegate_core::{Clock, ManualClock, MemoryStore, Store, Timestamp, conformance};
//! struct InMemory { clock: Arc<ManualClock>, store: Arc<MemoryStore> }
//! # impl InMemory { fn fresh() -> Self {
//! #     let clock = Arc::new(ManualClock::default());
//! #     Self { store: Arc::new(MemoryStore::with_clock(Arc::clone(&clock))), clock }
//! # } }
//!
//! #[async_trait::async_trait]
//! impl conformance::Harness for InMemory {
//!     async fn open(&self) -> Arc<dyn Store> { self.store.clone() }
//!     async fn advance(&self, by: Duration) { self.clock.advance(by) }
//!     async fn now(&self) -> Timestamp { self.clock.now() }
//!     fn survives_closing(&self) -> bool { false }
//! }
//!
//! // In a test file of the store, as two tests on a multi-thread runtime:
//! # async fn tests() {
//! conformance::run(async || InMemory::fresh()).await;
//! conformance::histories(InMemory::fresh()).await;
//! # }
//! ```

use std::{any::Any, env, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{Store, Timestamp};

/// Lists the cases of a file. A case that is not listed is dead code, which the compiler reports.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        &[$($crate::conformance::Case { name: stringify!($case), play: |trial| Box::pin($case(trial)) }),+]
    };
}

mod cancel;
mod claim;
mod complete;
mod doubt;
mod expiry;
mod extend;
mod fence;
mod history;
mod operators;
mod purge;
mod read;
mod reap;
mod release;
mod reopen;
mod response;
mod takeover;
mod trial;
mod withdraw;

pub use self::history::{
    Counterexample, Tally, histories, histories_side_by_side, search, so_many_histories_side_by_side,
};
use self::trial::Trial;

// === types ===

/// One empty store with a clock that the suite moves.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Opens a handle on the data. Where processes can share the store, each call gives another
    /// handle, as another process would have it; a store that has only one gives that.
    async fn open(&self) -> Arc<dyn Store>;

    /// Moves the store's clock on.
    async fn advance(&self, by: Duration);

    /// What the store's clock shows.
    async fn now(&self) -> Timestamp;

    /// How far the clock may run on by itself during one case, at most [`DRIFT_MAX`]. Zero, the
    /// default, means that it stands still between two calls of [`advance`](Self::advance); the suite
    /// then compares times exactly and tests the very instants at which leases and records end.
    fn drift(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether records outlive the last handle.
    fn survives_closing(&self) -> bool {
        true
    }
}

/// The most that [`Harness::drift`] may be.
pub const DRIFT_MAX: Duration = Duration::from_secs(4);

/// Longer than any case takes on a slow machine; a case that waits longer waits for ever.
const CASE_TIME_MAX: Duration = Duration::from_secs(120);

/// A sentence of the protocol, and how to try it.
struct Case {
    name: &'static str,
    play: fn(Trial) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// A sentence that a store broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case}: {message}")]
pub struct Failure {
    /// The case's name.
    pub case: &'static str,
    /// What was seen.
    pub message: String,
}

// === entry ===

/// Plays every named case on a store of its own. `ONCEGATE_CASE=text` plays only those whose name
/// contains the text.
///
/// # Panics
/// When a case fails; the message names every one that did.
pub async fn run<H: Harness>(fresh: impl AsyncFn() -> H) {
    let filter = env::var("ONCEGATE_CASE").unwrap_or_default();
    let failures = failures(&filter, fresh).await;
    let lines: String = failures.iter().map(|failure| format!("\n  {failure}")).collect();
    assert!(failures.is_empty(), "{} conformance cases failed:{lines}", failures.len());
}

/// Plays the cases whose name contains `filter` and answers which failed.
///
/// # Panics
/// When no case has such a name.
pub async fn failures<H: Harness>(filter: &str, fresh: impl AsyncFn() -> H) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut played = 0;
    for case in all().filter(|case| case.name.contains(filter)) {
        let trial = Trial::open(Arc::new(fresh().await)).await;
        failures.extend(case.failure(trial).await);
        played += 1;
    }
    assert!(played > 0, "no conformance case is named {filter:?}");
    failures
}

/// The names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|case| case.name)
}

fn all() -> impl Iterator<Item = &'static Case> {
    let files = [
        claim::CASES,
        takeover::CASES,
        fence::CASES,
        extend::CASES,
        complete::CASES,
        response::CASES,
        doubt::CASES,
        release::CASES,
        withdraw::CASES,
        operators::CASES,
        purge::CASES,
        reap::CASES,
        read::CASES,
        expiry::CASES,
        cancel::CASES,
        reopen::CASES,
    ];
    files.into_iter().flatten()
}

// === impl Case ===

impl Case {
    async fn failure(&self, trial: Trial) -> Option<Failure> {
        let task = tokio::spawn((self.play)(trial));
        let handle = task.abort_handle();
        let message = match tokio::time::timeout(CASE_TIME_MAX, task).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.try_into_panic().map_or_else(|error| error.to_string(), |panic| text_of(&*panic)),
            Err(_) => {
                handle.abort();
                format!("did not end within {CASE_TIME_MAX:?}")
            }
        };
        Some(Failure { case: self.name, message })
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let names: Vec<_> = super::names().collect();
        let distinct: HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(names.len() >= 60, "{} cases", names.len());
    }
}
