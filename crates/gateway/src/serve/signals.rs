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

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// To stop; which signal it was.
    Stop(&'static str),
    /// To read the configuration again.
    Reload,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal. Of several SIGHUP that come while one is served, the last is not lost.
    ///
    /// Cancelled: no signal is lost.
    pub(super) async fn next(&mut self) -> Demand {
        tokio::select! {
            _ = self.terminate.recv() => Demand::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Demand::Stop("SIGINT"),
            _ = self.hang_up.recv() => Demand::Reload,
        }
    }

    /// Waits for SIGTERM or SIGINT and says which: a gate that stops takes over nothing any more.
    pub(super) async fn stop(&mut self) -> &'static str {
        loop {
            match self.next().await {
                Demand::Stop(signal) => return signal,
                Demand::Reload => tracing::warn!("SIGHUP ignored while stopping"),
            }
        }
    }
}
