//! The limit on how long a client may take for a request head.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Instant,
};

use hyper::rt::{Sleep, Timer};

use super::alarm::Alarm;

/// hyper's timer for the request heads of one connection.
///
/// hyper sets up a timer for each head and takes it down again. These here are all one [`Alarm`].
#[derive(Debug, Clone, Default)]
pub(super) struct HeadTimer {
    shared: Arc<Mutex<Alarm>>,
}

/// One wait. A connection has one at a time.
#[derive(Debug)]
struct HeadSleep {
    timer: HeadTimer,
    deadline: Instant,
}

// === impl HeadTimer ===

impl Timer for HeadTimer {
    fn sleep(&self, duration: std::time::Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadSleep { timer: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

// === impl HeadSleep ===

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.timer.shared.lock().expect("nothing panics while it holds this lock");
        alarm.poll_at(self.deadline.into(), cx)
    }
}
