//! The Redis of programs that remember keys there: one of the lab's own, which can be restarted.

use std::{fmt, net::SocketAddr};

use anyhow::Context as _;
use oncegate_store::lab;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::bench::Redis;

// === types ===

/// A server, and a connection to it.
pub(super) struct Cache {
    // Before its folder: fields are dropped in this order.
    server: Mutex<Option<Redis>>,
    address: SocketAddr,
    directory: TempDir,
    client: lab::Cache,
}

// === impl Cache ===

impl Cache {
    /// # Errors
    /// Redis is not installed (the text says what to install) or does not start.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("oncegate-lab-").context("no temporary directory can be made")?;
        let server = Redis::start(directory.path(), &[]).await?;
        let address = server.address();
        let client = lab::Cache::open(&format!("redis://{address}").parse()?)?;
        Ok(Self { server: Mutex::new(Some(server)), address, directory, client })
    }

    pub(super) fn client(&self) -> &lab::Cache {
        &self.client
    }

    /// Kills the server and starts it anew where it was. As people run a cache, it kept nothing on disk.
    pub(super) async fn restart(&self) -> anyhow::Result<()> {
        let mut server = self.server.lock().await;
        if let Some(server) = server.take() {
            server.kill().await?;
        }
        *server = Some(Redis::start_at(self.address, self.directory.path(), &[]).await?);
        Ok(())
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({})", self.address)
    }
}
