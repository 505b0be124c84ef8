//! What the scenes are played on.

use std::net::SocketAddr;

use anyhow::Context as _;
use tempfile::TempDir;

use super::{
    gate::{Addresses, Gate},
    operator::Operator,
    service::Service,
};

/// A service and a gate in front of it, in a directory that vanishes with them.
#[derive(Debug)]
pub(super) struct Stage {
    service: Service,
    gate: Gate,
    at: Option<Addresses>,
    directory: TempDir,
}

// === impl Stage ===

impl Stage {
    /// Starts the service; the gate is started by [`Stage::start_gate`].
    pub(super) async fn set() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("oncegate-demo-").tempdir();
        let directory = directory.context("no temporary directory can be made")?;
        let service = Service::start().await?;
        let gate = Gate::new(service.address, directory.path());
        Ok(Self { service, gate, at: None, directory })
    }

    pub(super) async fn start_gate(&mut self) -> anyhow::Result<()> {
        self.at = Some(self.gate.start().await?);
        Ok(())
    }

    pub(super) async fn kill_gate(&mut self) -> anyhow::Result<()> {
        self.at = None;
        self.gate.kill().await
    }

    /// Stops the gate and the service and removes their files.
    pub(super) async fn clear(mut self) -> anyhow::Result<()> {
        let stopped = self.gate.stop().await;
        let removed = self.directory.close().context("the temporary directory cannot be removed");
        stopped.and(removed)
    }

    pub(super) fn service(&self) -> SocketAddr {
        self.service.address
    }

    pub(super) fn gate(&self) -> anyhow::Result<Addresses> {
        self.at.context("the gate does not run")
    }

    pub(super) fn store(&self) -> String {
        self.gate.store()
    }

    pub(super) fn operator(&self) -> Operator<'_> {
        Operator { directory: self.directory.path(), store: self.store() }
    }
}
