//! A database as an application meets it: for the programs of `oncegate lab`, and here because drivers end here.
//!
//! Every value is text, in and out: programs that are to be read by a person cast in their SQL. Nothing of it is used
//! while serving.

#[cfg(feature = "redis")]
mod cache;
mod postgres;
mod sqlite;

use std::path::PathBuf;

#[cfg(feature = "redis")]
pub use self::cache::Cache;
use crate::postgres::Address;

// === types ===

/// Where the programs keep their tables.
#[derive(Debug, Clone)]
pub enum Database {
    /// A server.
    Postgres(Box<Address>),
    /// A file.
    Sqlite(PathBuf),
}

/// One connection. Dropped within a transaction it leaves nothing of it behind, as when its program dies.
#[derive(Debug)]
pub struct Session(Driver);

#[derive(Debug)]
enum Driver {
    Postgres(postgres::Connection),
    Sqlite(sqlite::Connection),
}

/// The values of one row; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// The database refused a statement.
#[derive(Debug, thiserror::Error)]
#[error("the database refused a statement ({code})")]
pub struct Refusal {
    /// What the database calls the reason: an SQLSTATE, or SQLite's code.
    pub code: String,
    /// The driver's error.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

// === impl Database ===

impl Database {
    /// Opens a connection.
    ///
    /// # Errors
    /// The database cannot be reached, or has no room for one more.
    pub async fn connect(&self) -> Result<Session, Refusal> {
        let driver = match self {
            Self::Postgres(address) => Driver::Postgres(postgres::Connection::open(address).await?),
            Self::Sqlite(path) => Driver::Sqlite(sqlite::Connection::open(path.clone()).await?),
        };
        Ok(Session(driver))
    }
}

// === impl Session ===

impl Session {
    /// Runs statements that have no values.
    ///
    /// # Errors
    /// As the database has them. Cancelled: they may have been run.
    pub async fn run(&self, sql: &'static str) -> Result<(), Refusal> {
        match &self.0 {
            Driver::Postgres(connection) => connection.run(sql).await,
            Driver::Sqlite(connection) => connection.run(sql).await,
        }
    }

    /// Runs one statement with the values of `$1`, `$2`, …, which it must name in this order. Returns how many rows it
    /// changed.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn execute(&self, sql: &'static str, values: &[&str]) -> Result<u64, Refusal> {
        match &self.0 {
            Driver::Postgres(connection) => connection.execute(sql, values).await,
            Driver::Sqlite(connection) => connection.execute(sql, values).await,
        }
    }

    /// The rows of a query whose columns are text.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn rows(&self, sql: &'static str, values: &[&str]) -> Result<Vec<Row>, Refusal> {
        match &self.0 {
            Driver::Postgres(connection) => connection.rows(sql, values).await,
            Driver::Sqlite(connection) => connection.rows(sql, values).await,
        }
    }
}

// === impl Refusal ===

impl Refusal {
    fn new(code: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { code: code.into(), source: source.into() }
    }
}
