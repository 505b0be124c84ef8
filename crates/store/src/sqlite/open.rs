//! Opening a file: refuse what is not ours, then set it up.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{migrate, options::Options};

// === types ===

/// Why a file was not opened; it was left as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another kind of file, or one whose beginning is destroyed.
    #[error("{} is not an SQLite database: name another file, or restore this one", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A database of another program.
    #[error("{} is a database of another program (application id {application_id:#010x}): name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it says whose it is; 0 when it does not say.
        application_id: i64,
    },
    /// A newer oncegate has used it.
    #[error("{} has schema {found}, and this program knows {known} at most: use the newer program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The newest known one.
        known: i64,
    },
    /// Damaged.
    #[error("{} is damaged ({what}): restore it, or move it away to begin with no records", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A write-ahead log cannot be kept beside the file.
    #[error("{} cannot have a write-ahead log (journal mode {mode}): put it on a local disk", path.display())]
    NoWal {
        /// The file.
        path: PathBuf,
        /// The mode that SQLite chose instead.
        mode: String,
    },
    /// The file system or SQLite would not.
    #[error("{} cannot be opened: its directory must exist and be writable", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// Its path could not be made absolute.
    #[error("{} is not a usable path", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread for the store could not be started")]
    Thread(#[source] io::Error),
}

// === opening ===

/// Larger files are not read through when they are opened: it would delay the start (by three seconds of
/// CPU time for each GiB), and a damaged page is found by the verb that meets it.
const CHECKED_BYTES_MAX: i64 = 256 << 20;

/// How many pages the WAL may have before a commit also writes them back (16 MiB). A page that is written
/// again and again meanwhile is written back once; a longer WAL would hold that commit up for longer.
const CHECKPOINT_PAGES: i64 = 4_096;

/// To what the WAL is cut after it was written back, if it had to grow beyond.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// Page cache of each connection, in KiB (negative, as SQLite wants it): the upper pages of all indexes.
const CACHE_KIB: i64 = -16_384;

/// How long SQLite itself waits for the write lock; the worker asks again until [`Options::busy_timeout`].
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// The path that a change of the working directory does not change. It also keeps names with a meaning to
/// SQLite (`:memory:`) what they are here: names of files.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::Path { path: path.to_owned(), source })
}

/// The connection that writes. Refuses, creates or migrates the file first.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let failed = |error| refusal(path, error);
    let is_new = !path.exists();
    let connection = connect(path, options, OpenFlags::SQLITE_OPEN_CREATE).map_err(failed)?;
    // Until it is known to be ours, closing it must not write a WAL that it may have back into it.
    let write_back = |allowed: bool| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !allowed);
    write_back(!wal_of(path).exists()).map_err(failed)?;
    inspect(&connection, path)?;
    if is_new {
        only_for_its_owner(path)?;
    }
    keep_wal(&connection, path)?;
    set_up(&connection, options).map_err(failed)?;
    match migrate::migrate(&connection).map_err(failed)? {
        found if found > migrate::SCHEMA => return Err(newer(path, found)),
        _ => {}
    }
    write_back(true).map_err(failed)?;
    connection.busy_timeout(LOCK_PAUSE).map_err(failed)?;
    Ok(connection)
}

/// How many migrations a file lacks. Refuses as [`writer`] does, and changes nothing.
pub(super) fn pending(path: &Path, options: &Options) -> Result<usize, OpenError> {
    let failed = |error| refusal(path, error);
    let connection = connect(path, options, OpenFlags::empty()).map_err(failed)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    inspect(&connection, path)?;
    let lacking = migrate::SCHEMA.saturating_sub(migrate::schema(&connection).map_err(failed)?);
    Ok(usize::try_from(lacking).unwrap_or_default())
}

/// A connection that reads a file which [`writer`] has opened.
pub(super) fn reader(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let open = || {
        let connection = connect(path, options, OpenFlags::empty())?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB)?;
        Ok(connection)
    };
    open().map_err(|error| refusal(path, error))
}

fn connect(path: &Path, options: &Options, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    // Each connection stays with one thread, so SQLite need not lock it.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    Ok(connection)
}

// === refusing ===

/// Accepts an empty file and a file of ours. Looks at it in one snapshot and changes nothing.
fn inspect(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error| refusal(path, error);
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let pragma = |name| snapshot.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    let (application_id, schema) = (pragma("application_id")?, pragma("user_version")?);
    let objects = "SELECT count(*) FROM sqlite_schema";
    let objects: i64 = snapshot.query_row(objects, [], |row| row.get(0)).map_err(failed)?;
    if (application_id, schema, objects) == (0, 0, 0) {
        return Ok(());
    }
    if application_id != migrate::APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned(), application_id });
    }
    if schema > migrate::SCHEMA {
        return Err(newer(path, schema));
    }
    if pragma("page_count")?.saturating_mul(pragma("page_size")?) <= CHECKED_BYTES_MAX {
        let what: String = snapshot.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
        if what != "ok" {
            return Err(OpenError::Damaged { path: path.to_owned(), what });
        }
    }
    Ok(())
}

fn newer(path: &Path, found: i64) -> OpenError {
    OpenError::Newer { path: path.to_owned(), found, known: migrate::SCHEMA }
}

fn refusal(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, what: source.to_string() },
        Some(_) | None => OpenError::Failed { path, source },
    }
}

// === setting up ===

/// The name that SQLite gives the write-ahead log.
fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Stored responses may hold what only their callers may see. SQLite gives WAL and index the same mode.
/// By path: closing a file descriptor of our own would drop the locks that SQLite holds on the file.
#[cfg(unix)]
fn only_for_its_owner(path: &Path) -> Result<(), OpenError> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, mode).map_err(|source| OpenError::Path { path: path.to_owned(), source })
}

#[cfg(not(unix))]
fn only_for_its_owner(_: &Path) -> Result<(), OpenError> {
    Ok(())
}

/// Readers and the writer do not wait for each other, and a commit is one append and one fsync.
fn keep_wal(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    match mode.map_err(|error| refusal(path, error))? {
        mode if mode == "wal" => Ok(()),
        mode => Err(OpenError::NoWal { path: path.to_owned(), mode }),
    }
}

fn set_up(connection: &Connection, options: &Options) -> Result<(), rusqlite::Error> {
    let set = |name, value: i64| connection.pragma_update(None, name, value);
    connection.pragma_update(None, "synchronous", options.synchronous.as_str())?;
    // On macOS a plain fsync leaves data in the drive's cache; elsewhere these do nothing.
    set("fullfsync", 1)?;
    set("checkpoint_fullfsync", 1)?;
    set("wal_autocheckpoint", CHECKPOINT_PAGES)?;
    set("cache_size", CACHE_KIB)?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))?;
    if let Some(bytes) = options.file_bytes_max {
        let page_bytes: u64 = connection.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?.into();
        let pages = i64::try_from(bytes / page_bytes).unwrap_or(i64::MAX);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::Synchronous;

    #[test]
    fn commits_reach_the_disk_unless_told_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records.db");
        let of = |options: &Options| {
            let connection = writer(&path, options).unwrap();
            let pragma =
                |name, read: fn(&rusqlite::Row<'_>) -> _| connection.pragma_query_value(None, name, read).unwrap();
            (pragma("synchronous", |row| row.get::<_, i64>(0)), pragma("fullfsync", |row| row.get(0)))
        };
        assert_eq!(of(&Options::default()), (2, 1), "FULL");
        assert_eq!(of(&Options { synchronous: Synchronous::Normal, ..Options::default() }), (1, 1), "NORMAL");
    }
}
