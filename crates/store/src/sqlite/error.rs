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

/// Whether other verbs of the same transaction may well succeed without the one that failed. A lock
/// that is not given or a disk that fails concerns them all, and asking again one by one would only
/// make them wait as many times.
pub(super) fn concerns_one_verb(error: &rusqlite::Error) -> bool {
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

/// What a caller is told. The error is shared by all verbs of a transaction.
pub(super) fn store_error(error: &Arc<rusqlite::Error>, path: &Path) -> StoreError {
    let path = path.display();
    let (kind, text) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (ErrorKind::Full, format!("no room left for {path}: free disk space or reap")),
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
