//! A database for the time of one run.

use anyhow::{Context as _, ensure};
use oncegate_store::{
    lab::Database,
    postgres::{Address, yardstick::Server},
};
use tempfile::TempDir;

use super::shop::Shop;
use crate::bench::Cluster;

// === types ===

/// Where the lab is, and what is cleared away with it.
#[derive(Debug)]
pub(super) struct Place {
    name: String,
    database: Database,
    connections: usize,
    borrowed: Borrowed,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one, made once")]
enum Borrowed {
    /// A database on somebody's server, and our own server if it is that.
    Server {
        server: Server,
        name: String,
        cluster: Option<Cluster>,
    },
    Folder(TempDir),
}

/// Connections that are left to others of the server, to the store of the lab and to those who look at the ledger.
const CONNECTIONS_LEFT: usize = 10 + Shop::AUDITORS;

/// Fewer would be no storm.
const CONNECTIONS_MIN: usize = 20;

/// Connections of the lab at most: one for each client of the largest row.
const CONNECTIONS_MAX: usize = 310;

/// SQLite's connections are threads that block.
const CONNECTIONS_SQLITE: usize = 64;

// === impl Place ===

impl Place {
    /// A PostgreSQL of the lab's own, or SQLite where there is none.
    pub(super) async fn found() -> anyhow::Result<Self> {
        match Cluster::start(&[]).await {
            Ok(cluster) => {
                let address = cluster.address().clone();
                Self::on(&address, Some(cluster)).await
            }
            Err(error) => {
                eprintln!("no PostgreSQL can be started here, so on SQLite: {error:#}");
                Self::sqlite()
            }
        }
    }

    /// A database of its own on this server.
    pub(super) async fn postgres(address: &Address) -> anyhow::Result<Self> {
        Self::on(address, None).await
    }

    /// A file in a temporary folder.
    pub(super) fn sqlite() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("oncegate-lab-").context("no temporary directory can be made")?;
        let database = Database::Sqlite(directory.path().join("lab.db"));
        let borrowed = Borrowed::Folder(directory);
        Ok(Self { name: "SQLite".to_owned(), database, connections: CONNECTIONS_SQLITE, borrowed })
    }

    async fn on(address: &Address, cluster: Option<Cluster>) -> anyhow::Result<Self> {
        let server = Server::connect(address).await.with_context(|| format!("PostgreSQL {address}"))?;
        let about = server.about().await?;
        let connections = about.connections.saturating_sub(CONNECTIONS_LEFT).min(CONNECTIONS_MAX);
        ensure!(
            connections >= CONNECTIONS_MIN,
            "only {} connections are free on this server: at least {} are needed",
            about.connections,
            CONNECTIONS_MIN + CONNECTIONS_LEFT
        );
        let name = format!("oncegate_lab_{}", uuid::Uuid::new_v4().simple());
        let made = server.make_database(&name).await;
        let made = made.context("no database of the lab's own can be made: grant the role CREATEDB")?;
        let database = Database::Postgres(Box::new(made.address().clone()));
        let borrowed = Borrowed::Server { server, name, cluster };
        Ok(Self { name: format!("PostgreSQL {}", about.version), database, connections, borrowed })
    }

    /// What a reader is told.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// How many connections the lab may have.
    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Leaves nothing behind.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        match self.borrowed {
            Borrowed::Server { server, name, cluster } => {
                server.drop_database(&name).await.context("dropping the lab's database")?;
                if let Some(cluster) = cluster {
                    cluster.stop().await?;
                }
            }
            Borrowed::Folder(directory) => directory.close().context("removing the lab's folder")?,
        }
        Ok(())
    }
}
