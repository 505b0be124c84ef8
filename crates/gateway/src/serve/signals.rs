//! The signals that a service gets.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its making on; a signal that came meanwhile is not lost.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT and says which.
    pub(super) async fn stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                // Without a listener it would end the process without a drain.
                _ = self.hang_up.recv() => tracing::warn!("SIGHUP ignored: this version reads its configuration only when it starts"),
            }
        }
    }
}
