//! A limit on how long one wait may take.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::alarm::Alarm;

/// Times each wait for a peer anew. Costs nothing until the first wait, which most messages never reach.
#[derive(Debug)]
pub(super) struct IdleTimer {
    limit: Duration,
    alarm: Alarm,
    /// When the present wait has lasted too long.
    deadline: Option<Instant>,
}

// === impl IdleTimer ===

impl IdleTimer {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, alarm: Alarm::default(), deadline: None }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The peer did something: the wait is over.
    pub(super) fn rest(&mut self) {
        self.deadline = None;
    }

    /// The peer did nothing yet: ready once that has been so for the limit.
    pub(super) fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.limit);
        self.alarm.poll_at(deadline, cx)
    }
}
