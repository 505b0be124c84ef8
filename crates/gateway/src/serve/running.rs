//! A gate that serves, and how it stops.

use std::{process::ExitCode, sync::Arc, time::Duration};

use oncegate_core::Store;
use oncegate_tower::Handle;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    door::{Closed, Door},
    health::Health,
};
use crate::access_log;

// === types ===

/// What must be told to stop.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) health: Arc<Health>,
    /// `None` where nothing is guarded.
    pub(super) door: Option<Door>,
    pub(super) executions: Handle,
    pub(super) store: Arc<dyn Store>,
    /// Stops the duties and the admin listener.
    pub(super) background: CancellationToken,
    pub(super) tasks: JoinSet<()>,
    pub(super) drain: Duration,
    /// Writes what is left when it is dropped.
    pub(super) access_log: Option<access_log::Writer>,
}

/// What did not end in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    connections: usize,
    executions: usize,
}

// === impl Running ===

impl Running {
    /// Waits for the listener to end by itself, which it should not.
    pub(super) async fn ended(&mut self) {
        match &mut self.door {
            Some(door) => door.ended().await,
            // Duties and the admin listener end when they are told to.
            None => _ = self.tasks.join_next().await,
        }
    }

    /// Stops in the order in which others depend on it. The admin listener is the last, so that a stop can be watched.
    pub(super) async fn stop(mut self) -> Cut {
        let deadline = Instant::now() + self.drain;
        self.health.drain();
        let Closed { connections, tunnels } = match self.door {
            Some(door) => door.close().await,
            None => Closed::default(),
        };
        // Whose client left goes on, and its outcome is still to be stored.
        let executions = match timeout_at(deadline, self.executions.drained()).await {
            Ok(()) => 0,
            Err(_) => self.executions.executing(),
        };
        // What a front has acknowledged. Another gate writes what is left, if there is one.
        if timeout_at(deadline, self.store.drained()).await.is_err() {
            tracing::warn!("stopped before PostgreSQL has all that the front has acknowledged");
        }
        self.background.cancel();
        while self.tasks.join_next().await.is_some() {}
        drop(self.access_log);
        tracing::info!(connections_cut = connections, executions_cut = executions, tunnels_closed = tunnels, "stopped");
        Cut { connections, executions }
    }
}

// === impl Cut ===

impl Cut {
    pub(super) fn exit_code(self) -> ExitCode {
        if self.connections == 0 && self.executions == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
