//! On SQLite.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{params_from_iter, types::ValueRef};

use super::{Refusal, Row};

// === types ===

/// One connection. Its statements run on threads that may block.
#[derive(Debug)]
pub(super) struct Connection(Arc<Mutex<rusqlite::Connection>>);

/// How long a statement waits for another's lock: what most drivers set.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Connection ===

impl Connection {
    pub(super) async fn open(path: PathBuf) -> Result<Self, Refusal> {
        let open = move || {
            let connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            Ok(Self(Arc::new(Mutex::new(connection))))
        };
        blocking(open).await
    }

    pub(super) async fn run(&self, sql: &'static str) -> Result<(), Refusal> {
        self.with(move |connection| connection.execute_batch(sql)).await
    }

    pub(super) async fn execute(&self, sql: &'static str, values: &[&str]) -> Result<u64, Refusal> {
        let values = owned(values);
        let rows = self.with(move |connection| connection.execute(sql, params_from_iter(values))).await?;
        Ok(u64::try_from(rows).unwrap_or(u64::MAX))
    }

    pub(super) async fn rows(&self, sql: &'static str, values: &[&str]) -> Result<Vec<Row>, Refusal> {
        let values = owned(values);
        let read = move |connection: &rusqlite::Connection| {
            let mut statement = connection.prepare(sql)?;
            let columns = statement.column_count();
            let rows = statement.query_map(params_from_iter(values), |row| {
                (0..columns).map(|column| row.get_ref(column).map(text)).collect()
            })?;
            rows.collect()
        };
        self.with(read).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let connection = Arc::clone(&self.0);
        blocking(move || work(&connection.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(ended) => Err(Refusal::new("no code", ended)),
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

// === impl Refusal ===

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code().map_or_else(|| "no code".to_owned(), |code| format!("{code:?}"));
        Self::new(code, error)
    }
}
