//! Numbered migrations, forward only.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// What marks a file as ours: "once". Set by the first migration.
pub(super) const APPLICATION_ID: i64 = 0x6f6e_6365;

/// Migration `n` leads from schema `n - 1` to `n`, and says so itself in `user_version`.
const MIGRATIONS: [&str; 4] = [
    include_str!("migrations/001_create_records.sql"),
    include_str!("migrations/002_create_audit.sql"),
    include_str!("migrations/003_narrow_indexes.sql"),
    include_str!("migrations/004_note_suspicions.sql"),
];

/// The newest schema that this program knows.
pub(super) const SCHEMA: i64 = 4;

/// The schema of the file; 0 is an empty one.
pub(super) fn schema(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the schema up to date: all steps or none. The write lock keeps other processes out meanwhile,
/// and whoever waited for it finds nothing left to do.
///
/// Returns the schema afterwards; a newer one than [`SCHEMA`] is left alone.
pub(super) fn migrate(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let found = usize::try_from(schema(&transaction)?).unwrap_or(usize::MAX);
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration)?;
    }
    let schema = schema(&transaction)?;
    transaction.commit()?;
    Ok(schema)
}
