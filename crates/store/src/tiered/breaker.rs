//! Leaves alone what does not answer: a server that hangs would take a part of its timeout from every request.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use oncegate_core::{ErrorKind, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::observer::{Event, Observer};

// === types ===

/// What stands before one server.
#[derive(Debug)]
pub(super) struct Breaker {
    /// What errors call the server.
    server: &'static str,
    /// Whether an error speaks against the server.
    is_failure: fn(&StoreError) -> bool,
    /// Is told whether it is left alone.
    observer: Arc<dyn Observer>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// All are let through; so many of the last ones failed.
    Closed { failures: u32 },
    /// None is let through until then; after that one is.
    Open { until: Instant },
    /// One is on its way.
    Probing,
}

/// One call that was let through; without an outcome it says nothing.
struct Pass<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    has_outcome: bool,
}

/// How many calls fail, one after the other, before the server is left alone: a connection that was lost fails some.
const FAILURES_MAX: u32 = 4;

/// For how long it is left alone before one call tries again.
const PAUSE: Duration = Duration::from_millis(500);

// === impl Breaker ===

impl Breaker {
    pub(super) fn new(server: &'static str, is_failure: fn(&StoreError) -> bool, observer: Arc<dyn Observer>) -> Self {
        observer.observe(&Event::Breaker { is_open: false });
        Self { server, is_failure, observer, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Whether a call would be let through.
    pub(super) fn is_open(&self) -> bool {
        match *self.state() {
            State::Closed { .. } => false,
            State::Open { until } => Instant::now() < until,
            State::Probing => true,
        }
    }

    /// Lets a call through, until then.
    ///
    /// # Errors
    /// Those of the call; `Unavailable` where it is not let through, or has no answer in time.
    pub(super) async fn run<T>(
        &self,
        until: Instant,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let unavailable = |text| StoreError::new(ErrorKind::Unavailable, text);
        let Some(pass) = self.enter() else {
            let text = format!("{} is left alone for a moment, since it did not answer", self.server);
            return Err(unavailable(text).unapplied());
        };
        let answered = timeout_at(until, call).await;
        let answered = answered.unwrap_or_else(|_| Err(unavailable(format!("{} did not answer in time", self.server))));
        pass.end(answered.as_ref().is_err_and(self.is_failure));
        answered
    }

    fn enter(&self) -> Option<Pass<'_>> {
        let mut state = self.state();
        let is_probe = match *state {
            State::Closed { .. } => false,
            State::Open { until } if Instant::now() >= until => {
                *state = State::Probing;
                true
            }
            State::Open { .. } | State::Probing => return None,
        };
        Some(Pass { breaker: self, is_probe, has_outcome: false })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever held the lock could only replace the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pass ===

impl Pass<'_> {
    fn end(mut self, has_failed: bool) {
        self.has_outcome = true;
        let (server, mut state) = (self.breaker.server, self.breaker.state());
        let failures = match *state {
            State::Closed { failures } => failures + 1,
            // Another call has judged meanwhile.
            State::Open { .. } | State::Probing if !self.is_probe => return,
            State::Open { .. } | State::Probing => FAILURES_MAX,
        };
        *state = match has_failed {
            false => State::Closed { failures: 0 },
            true if failures < FAILURES_MAX => State::Closed { failures },
            true => State::Open { until: Instant::now() + PAUSE },
        };
        match *state {
            State::Open { .. } if !self.is_probe => {
                tracing::warn!(server, "does not answer and is left alone");
                self.breaker.observer.observe(&Event::Breaker { is_open: true });
            }
            State::Closed { .. } if self.is_probe => {
                tracing::info!(server, "answers again");
                self.breaker.observer.observe(&Event::Breaker { is_open: false });
            }
            State::Closed { .. } | State::Open { .. } | State::Probing => {}
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.has_outcome {
            // Its caller left: the next one may try.
            *self.breaker.state() = State::Open { until: Instant::now() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Unobserved;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<Event>>);

    impl Observer for Told {
        fn observe(&self, event: &Event) {
            self.0.lock().unwrap().push(*event);
        }
    }

    fn breaker_before(observer: Arc<dyn Observer>) -> Breaker {
        Breaker::new("the server", |error| error.kind() == ErrorKind::Unavailable, observer)
    }

    fn breaker() -> Breaker {
        breaker_before(Arc::new(Unobserved))
    }

    async fn fail(breaker: &Breaker, kind: ErrorKind) -> String {
        let call = async { Err::<(), _>(StoreError::new(kind, "broken")) };
        breaker.run(Instant::now() + PAUSE, call).await.unwrap_err().to_string()
    }

    async fn succeed(breaker: &Breaker) -> bool {
        breaker.run(Instant::now() + PAUSE, async { Ok(()) }).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_failing_is_left_alone_and_tried_by_one_at_a_time() {
        let breaker = breaker();
        for _ in 0..FAILURES_MAX {
            assert_eq!(fail(&breaker, ErrorKind::Unavailable).await, "broken");
        }
        assert!(breaker.is_open());
        let refused = breaker.run(Instant::now() + PAUSE, async { Ok(()) }).await.unwrap_err();
        assert!(refused.is_unapplied(), "nobody is let through");
        tokio::time::advance(PAUSE).await;
        let probe = breaker.enter().expect("one may try");
        assert!(breaker.enter().is_none(), "and no other beside it");
        drop(probe);
        assert!(!breaker.is_open(), "its caller left");
        assert_eq!(fail(&breaker, ErrorKind::Unavailable).await, "broken");
        assert!(!succeed(&breaker).await, "one failure is enough for another pause");
        tokio::time::advance(PAUSE).await;
        assert!(succeed(&breaker).await && succeed(&breaker).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_speak_against_the_server_closes_nothing() {
        let breaker = breaker();
        for _ in 0..FAILURES_MAX * 2 {
            assert_eq!(fail(&breaker, ErrorKind::Collision).await, "broken");
        }
        for _ in 0..FAILURES_MAX * 2 {
            fail(&breaker, ErrorKind::Unavailable).await;
            assert!(succeed(&breaker).await, "it answers in between");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_observes_is_told_when_it_opens_and_when_it_closes() {
        let told = Arc::new(Told::default());
        let breaker = breaker_before(Arc::<Told>::clone(&told));
        for _ in 0..FAILURES_MAX {
            fail(&breaker, ErrorKind::Unavailable).await;
        }
        for _ in 0..2 {
            tokio::time::advance(PAUSE).await;
            fail(&breaker, ErrorKind::Unavailable).await;
        }
        tokio::time::advance(PAUSE).await;
        assert!(succeed(&breaker).await && succeed(&breaker).await);
        let told: Vec<_> = told.0.lock().unwrap().clone();
        assert_eq!(told, [false, true, false].map(|is_open| Event::Breaker { is_open }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_in_time() {
        let call = std::future::pending::<Result<(), _>>();
        let error = breaker().run(Instant::now() + PAUSE, call).await.unwrap_err();
        assert_eq!(error.to_string(), "the server did not answer in time");
    }
}
