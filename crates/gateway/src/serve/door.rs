//! Where clients come in, and how it is closed.

use oncegate_tower::Idempotency;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    proxy::{self, AcceptSettings, Upstream},
    well_known::WellKnown,
};

// === types ===

/// A listener for clients, open.
#[derive(Debug)]
pub(super) struct Door {
    /// Stops new connections.
    accepting: CancellationToken,
    /// Ends when all connections have ended, with how many were cut.
    connections: JoinHandle<usize>,
    upstream: Upstream,
}

/// What was open when the door was closed.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// Connections that did not end in time.
    pub(super) connections: usize,
    pub(super) tunnels: usize,
}

// === impl Door ===

impl Door {
    /// Lets clients in, to a stack that ends at this upstream.
    pub(super) fn open(
        listener: TcpListener,
        stack: WellKnown<Idempotency<Upstream>>,
        upstream: Upstream,
        settings: AcceptSettings,
    ) -> Self {
        let accepting = CancellationToken::new();
        let connections = tokio::spawn(proxy::accept(listener, stack, settings, accepting.clone()));
        Self { accepting, connections, upstream }
    }

    /// Waits for the listener to end by itself, which it should not.
    pub(super) async fn ended(&mut self) {
        if let Err(error) = (&mut self.connections).await {
            tracing::error!(%error, "the listener failed");
        }
    }

    /// Lets nobody in any more, and waits for those who are in.
    pub(super) async fn close(self) -> Closed {
        self.accepting.cancel();
        let connections = self.connections.await.unwrap_or_default();
        // Tunnels end by no signal of ours, so there is nothing to wait for.
        let tunnels = self.upstream.tunnels().cut().await;
        Closed { connections, tunnels }
    }
}
