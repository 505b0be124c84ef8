//! What a measurement asks of a server, and does there.

use oncegate_core::StoreError;
use tokio_postgres::{Client, Row, types::Type};

use super::{connect, failed};
use crate::postgres::{Address, Migrator};

// === types ===

/// A connection for measuring.
#[derive(Debug)]
pub struct Server {
    address: Address,
    client: Quiet,
}

/// A client that says nothing of itself, since it may know a password.
struct Quiet(Client);

/// What decides the figures.
#[derive(Debug, Clone)]
pub struct About {
    /// Such as `15.8`.
    pub version: String,
    /// The server's name, if it was given one.
    pub cluster_name: String,
    /// How many connections are left.
    pub connections: usize,
    /// The process on the server that serves this connection.
    pub process: u32,
    /// Whether the server is reached by this machine's own address.
    pub is_local: bool,
    /// The settings that a reader needs, by name.
    pub settings: Vec<(String, String)>,
}

/// What a server counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Transactions of one database that were committed.
    pub commits: u64,
    /// Bytes of the write-ahead log, of the whole server.
    pub wal_bytes: u64,
    /// Where the last checkpoint began; another value is another checkpoint.
    pub checkpoint: String,
    /// Who else is connected to the database; what they did is counted when they leave.
    pub others: u64,
}

/// What the records take on the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// How many there are.
    pub records: u64,
    /// The table of records.
    pub records_table: u64,
    /// Its indexes.
    pub records_indexes: u64,
    /// The table of responses, with what is stored out of line.
    pub responses_table: u64,
    /// Its index.
    pub responses_indexes: u64,
}

// === impl About ===

impl About {
    /// A setting's value.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

// === impl Server ===

impl Server {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or lets nobody in.
    pub async fn connect(address: &Address) -> Result<Self, StoreError> {
        Ok(Self { address: address.clone(), client: Quiet(connect(address).await?) })
    }

    /// What decides the figures.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn about(&self) -> Result<About, StoreError> {
        let row = self.row(include_str!("about.sql"), &[]).await?;
        let settings = self.client.0.query_typed(include_str!("settings.sql"), &[]).await.map_err(failed("asking"))?;
        let settings: Result<Vec<_>, _> =
            settings.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?))).collect();
        Ok(About {
            version: text(&row, "version")?,
            cluster_name: text(&row, "cluster_name")?,
            connections: usize::try_from(number(&row, "connections")?).unwrap_or_default(),
            process: u32::try_from(number(&row, "process")?).unwrap_or_default(),
            is_local: row.try_get("is_local").map_err(failed("reading"))?,
            settings: settings.map_err(failed("reading"))?,
        })
    }

    /// Makes a database of the measurement's own, with the schema, and connects to it.
    ///
    /// # Errors
    /// The name is taken, or the role may not make databases. Cancelled: it may have been made.
    pub async fn make_database(&self, name: &str) -> Result<Self, StoreError> {
        // A name can be no parameter; this one is ours.
        self.run(&format!("CREATE DATABASE {name}")).await?;
        let address = self.address.with_database(name);
        let mut migrator = Migrator::connect(&address).await.map_err(not_migrated)?;
        migrator.migrate().await.map_err(not_migrated)?;
        Self::connect(&address).await
    }

    /// Deletes it, whoever is connected.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may have been deleted.
    pub async fn drop_database(&self, name: &str) -> Result<(), StoreError> {
        self.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Deletes all records, which are the measurement's own, and forgets the front that stood before them.
    ///
    /// # Errors
    /// As the server has them. Cancelled: they may have been deleted.
    pub async fn empty(&self) -> Result<(), StoreError> {
        self.run("TRUNCATE oncegate.records, oncegate.responses, oncegate.graves, oncegate.front").await
    }

    /// From now on nothing comes from an outbox.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may be so.
    pub async fn hold_outbox_back(&self) -> Result<(), StoreError> {
        self.run("ALTER FUNCTION oncegate.apply_batch RENAME TO apply_batch_held").await
    }

    /// What was held back may come.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may.
    pub async fn let_outbox_go(&self) -> Result<(), StoreError> {
        self.run("ALTER FUNCTION oncegate.apply_batch_held RENAME TO apply_batch").await
    }

    /// Writes everything to the disk, so that what follows does not pay for what was before.
    ///
    /// # Errors
    /// Most roles may not. Cancelled: it happens all the same.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.run("CHECKPOINT").await
    }

    /// Adds completed records, numbered.
    ///
    /// # Errors
    /// As the server has them. Cancelled: they may have been added.
    pub async fn fill(&self, first: u64, last: u64) -> Result<(), StoreError> {
        let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (first, last) = (bound(first), bound(last));
        let bounds = [(&first as _, Type::INT8), (&last as _, Type::INT8)];
        self.client.0.query_typed(include_str!("fill.sql"), &bounds).await.map(drop).map_err(failed("filling"))
    }

    /// Cleans up after filling, as the server does in time.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may go on.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        // Each in a statement of its own, since neither can be in a transaction.
        self.run("VACUUM ANALYZE oncegate.records").await?;
        self.run("VACUUM ANALYZE oncegate.responses").await
    }

    /// What this database and its server have counted so far.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn counters(&self, database: &str) -> Result<Counters, StoreError> {
        let row = self.row(include_str!("counters.sql"), &[(&database, Type::TEXT)]).await?;
        Ok(Counters {
            commits: number(&row, "commits")?,
            wal_bytes: number(&row, "wal_bytes")?,
            checkpoint: text(&row, "checkpoint")?,
            others: number(&row, "others")?,
        })
    }

    /// The server's time, as it writes it.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn now(&self) -> Result<String, StoreError> {
        text(&self.row("SELECT clock_timestamp()::text AS now", &[]).await?, "now")
    }

    /// How many records were made since then and are completed.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn completed_since(&self, time: &str) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) AS completed FROM oncegate.records
                   WHERE created_at >= $1::text::timestamptz AND state = 'completed'";
        number(&self.row(sql, &[(&time, Type::TEXT)]).await?, "completed")
    }

    /// What the records take on the disk.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn sizes(&self) -> Result<Sizes, StoreError> {
        let row = self.row(include_str!("sizes.sql"), &[]).await?;
        Ok(Sizes {
            records: number(&row, "records")?,
            records_table: number(&row, "records_table")?,
            records_indexes: number(&row, "records_indexes")?,
            responses_table: number(&row, "responses_table")?,
            responses_indexes: number(&row, "responses_indexes")?,
        })
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.client.0.batch_execute(sql).await.map_err(failed("a statement of the measurement"))
    }

    async fn row(
        &self,
        sql: &str,
        parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)],
    ) -> Result<Row, StoreError> {
        let mut rows = self.client.0.query_typed(sql, parameters).await.map_err(failed("asking"))?;
        rows.pop().ok_or_else(|| StoreError::new(oncegate_core::ErrorKind::Unavailable, "the server said nothing"))
    }
}

fn not_migrated(error: crate::postgres::MigrateError) -> StoreError {
    StoreError::new(oncegate_core::ErrorKind::Unavailable, "making the schema failed").with_source(error)
}

fn text(row: &Row, name: &str) -> Result<String, StoreError> {
    row.try_get(name).map_err(failed("reading"))
}

fn number(row: &Row, name: &str) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(name).map_err(failed("reading"))?;
    Ok(u64::try_from(number).unwrap_or_default())
}

// === impl Quiet ===

impl std::fmt::Debug for Quiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}
