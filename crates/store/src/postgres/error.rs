//! PostgreSQL's errors in the words of the contract.

use std::sync::Arc;

use oncegate_core::{ErrorKind, StoreError};
use tokio_postgres::error::SqlState;

use super::address::ConnectError;

// === types ===

/// Why a transaction came to nothing, as far as can be told.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// There is no connection: nothing was sent.
    NotConnected(Arc<ConnectError>),
    /// The connection ended after something was sent: whether it was applied is open.
    Lost(Option<Arc<tokio_postgres::Error>>),
    /// Rolled back for the sake of another transaction: asking again may well succeed.
    Conflict(Arc<tokio_postgres::Error>),
    /// Rolled back because of what was asked, or of the server's state.
    Refused(Arc<tokio_postgres::Error>),
}

// === impl Failure ===

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        // An error before it reached the server (a value that cannot be sent) ends no connection.
        let is_broken = std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>());
        let is_lost = error.is_closed() || is_broken;
        let error = Arc::new(error);
        match error.code() {
            None if is_lost => Self::Lost(Some(error)),
            None => Self::Refused(error),
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => Self::Conflict(error),
            // 57P: the server stops or has just started; 08: the connection failed, perhaps behind a pooler;
            // 25006 and, for what only a primary can tell, 55000: it follows another server by now. Only a new connection
            // can lead elsewhere.
            Some(code)
                if code.code().starts_with("57P")
                    || code.code().starts_with("08")
                    || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                    || *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE =>
            {
                Self::Lost(Some(error))
            }
            Some(_) => Self::Refused(error),
        }
    }
}

/// 08: connections, 0A: what this server cannot do, 25: read only, 26: statements, 28: who asks, 3D and 3F: no such database or
/// schema, 42703, 42883 and 42P01: no such column, function or table, 53: resources, 57: stopping, 58 and XX: the server itself.
const CONCERN_ALL: [&str; 14] =
    ["08", "0A", "25", "26", "28", "3D", "3F", "42703", "42883", "42P01", "53", "57", "58", "XX"];

impl Failure {
    /// Whether the other verbs of a batch may well succeed without the one that is to blame. A disk that is full or
    /// a schema that is missing concerns them all.
    pub(super) fn concerns_one_verb(&self) -> bool {
        let Self::Refused(error) = self else { return false };
        // No code: a value that cannot be sent. 53200: more locks at once than there is room for.
        let is_of_all = |code: &str| CONCERN_ALL.iter().any(|class| code.starts_with(class)) && code != "53200";
        error.code().is_none_or(|code| !is_of_all(code.code()))
    }

    /// Whether a lock was not given in time: that of one record, or that of the whole table.
    pub(super) fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// What the callers of its verbs are told.
    pub(super) fn to_store_error(&self) -> StoreError {
        match self {
            Self::NotConnected(error) => unavailable(unreachable(error), error).unapplied(),
            Self::Lost(Some(error)) => unavailable("the connection to PostgreSQL was lost", error),
            Self::Lost(None) => StoreError::new(ErrorKind::Unavailable, "PostgreSQL did not answer in time"),
            Self::Conflict(error) => unavailable("other transactions kept coming first", error).unapplied(),
            Self::Refused(error) if error.code().is_some() => refused(error).unapplied(),
            Self::Refused(error) => refused(error),
        }
    }
}

/// Why there is no connection, as far as whoever wrote the address can do something about it.
pub(super) fn unreachable(error: &ConnectError) -> &'static str {
    let ConnectError::Driver(error) = error else { return "PostgreSQL takes connections and does not answer" };
    #[cfg(feature = "postgres-tls")]
    if let Some(advice) = super::address::advice(error) {
        return advice;
    }
    match error.code().map(SqlState::code) {
        Some("28P01" | "28000") => "PostgreSQL refuses this user or password",
        Some("3D000") => "PostgreSQL has no such database",
        _ => "PostgreSQL cannot be reached",
    }
}

fn refused(error: &Arc<tokio_postgres::Error>) -> StoreError {
    let code = error.code().map_or("", SqlState::code);
    let (kind, text) = match code {
        "53100" => (ErrorKind::Full, "PostgreSQL has no room left: free disk space".to_owned()),
        "3F000" | "42P01" | "42883" | "42703" => {
            (ErrorKind::Unavailable, "the schema oncegate is missing or too old: run `oncegate migrate`".to_owned())
        }
        "XX001" | "XX002" => (ErrorKind::Corrupt, "what PostgreSQL holds is damaged".to_owned()),
        "" => (ErrorKind::Unavailable, "PostgreSQL could not be asked".to_owned()),
        code => (ErrorKind::Unavailable, format!("PostgreSQL refused a verb with SQLSTATE {code}")),
    };
    StoreError::new(kind, text).with_source(Arc::clone(error))
}

fn unavailable<E>(text: &str, error: &Arc<E>) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
{
    StoreError::new(ErrorKind::Unavailable, text).with_source(Arc::clone(error))
}
