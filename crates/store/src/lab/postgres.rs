//! On PostgreSQL.

use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{Refusal, Row};
use crate::postgres::{Address, ConnectError};

// === types ===

/// One connection.
pub(super) struct Connection(Client);

// === impl Connection ===

impl Connection {
    pub(super) async fn open(address: &Address) -> Result<Self, Refusal> {
        let (client, _driving) = address.connect().await?;
        Ok(Self(client))
    }

    pub(super) async fn run(&self, sql: &str) -> Result<(), Refusal> {
        Ok(self.0.batch_execute(sql).await?)
    }

    pub(super) async fn execute(&self, sql: &str, values: &[&str]) -> Result<u64, Refusal> {
        Ok(self.0.execute_typed(sql, &typed(values)).await?)
    }

    pub(super) async fn rows(&self, sql: &str, values: &[&str]) -> Result<Vec<Row>, Refusal> {
        let rows = self.0.query_typed(sql, &typed(values)).await?;
        let read = |row: &tokio_postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }
}

/// Says what each value is, so that nothing has to be prepared.
fn typed<'a>(values: &'a [&'a str]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect()
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

// === impl Refusal ===

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Driver(error) => error.into(),
            silent @ ConnectError::Silent(_) => Self::new("no SQLSTATE", silent),
        }
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = error.code().map_or("no SQLSTATE", tokio_postgres::error::SqlState::code).to_owned();
        Self::new(code, error)
    }
}
