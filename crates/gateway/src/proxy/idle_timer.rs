//! A limit on how long one wait may take.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Times each wait for a peer anew. Costs nothing until the first wait, which most messages never reach.
#[derive(Debug)]
pub(super) struct IdleTimer {
    limit: Duration,
    /// Kept from wait to wait: pushing a timer further is much cheaper than setting up another.
    sleep: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

// === impl IdleTimer ===

impl IdleTimer {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, sleep: None, is_waiting: false }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The peer did something: the wait is over.
    pub(super) fn rest(&mut self) {
        self.is_waiting = false;
    }

    /// The peer did nothing yet: ready once that has been so for the limit.
    pub(super) fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| {
            self.is_waiting = true;
            Box::pin(sleep(limit))
        });
        if !self.is_waiting {
            self.is_waiting = true;
            sleep.as_mut().reset(Instant::now() + limit);
        }
        sleep.as_mut().poll(cx)
    }
}
