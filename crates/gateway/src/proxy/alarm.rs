//! One timer for many waits.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is kept from wait to wait. Setting up a timer of tokio's takes an allocation and two locks, pushing one
/// further is one atomic write; and most waits never last long enough to set one up.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

// === impl Alarm ===

impl Alarm {
    /// Ready from `deadline` on, which may change from one question to the next.
    pub(super) fn poll_at(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(cx)
    }
}
