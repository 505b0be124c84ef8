//! The limit on how long a client may take for a request head.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Instant,
};

use hyper::rt::{Sleep, Timer};

/// hyper's timer for the request heads of one connection.
///
/// hyper sets up a timer for each head and takes it down again, which in tokio's timer wheel means an allocation and two
/// locks for each request. These here are all one timer, which is only ever pushed further: that is one atomic write.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadTimer {
    shared: Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>,
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
        let deadline = self.deadline.into();
        let mut shared = self.timer.shared.lock().expect("nothing panics while it holds this lock");
        let sleep = shared.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(cx)
    }
}
