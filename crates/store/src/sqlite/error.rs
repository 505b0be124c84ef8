//! SQLite's errors in the words of the contract.

use std::{path::Path, sync::Arc};

use oncegate_core::{ErrorKind, StoreError};
use rusqlite::ErrorCode;

// === types ===

/// Why a verb could not be carried out.
pub(super) enum Failure {
    /// Judged before anything was written: the transaction goes on without this verb.
    Judged(StoreError),
    /// SQLite refused a statement: the verb may be half applied, and the transaction is void.
    Sqlite(rusqlite::Error),
}

/// Why a transaction with all its verbs came to nothing.
pub(super) enum RolledBack {
    /// SQLite refused a statement or the commit.
    Failed(Arc<rusqlite::Error>),
    /// A verb panicked.
    Panicked,
}

// === impl Failure ===

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Judged(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

// === impl RolledBack ===

impl RolledBack {
    /// Whether the other verbs may well succeed without the one that failed. A lock that is not given or a
    /// disk that fails concerns them all, and asking again one by one would make them wait as many times.
    pub(super) fn concerns_one_verb(&self) -> bool {
        let Self::Failed(error) = self else { return true };
        match error.sqlite_error_code() {
            Some(code) => matches!(
                code,
                ErrorCode::DiskFull
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
                    | ErrorCode::TooBig
                    | ErrorCode::OutOfMemory
            ),
            // A value that could not be read or bound.
            None => true,
        }
    }

    /// What the caller of each of its verbs is told.
    pub(super) fn to_store_error(&self, path: &Path) -> StoreError {
        let path = path.display();
        let Self::Failed(error) = self else {
            return StoreError::new(ErrorKind::Unavailable, format!("a panic interrupted a verb on {path}"));
        };
        let (kind, text) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                (ErrorKind::Full, format!("no room left for {path}: free disk space, or reap if its size is limited"))
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                (ErrorKind::Corrupt, format!("{path} cannot be read: check it with `PRAGMA integrity_check`"))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (ErrorKind::Unavailable, format!("{path} is locked by another process"))
            }
            Some(_) => (ErrorKind::Unavailable, format!("{path} could not be read or written")),
        };
        StoreError::new(kind, text).with_source(Arc::clone(error))
    }
}

/// Whether another process holds the lock that was asked for.
pub(super) fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
