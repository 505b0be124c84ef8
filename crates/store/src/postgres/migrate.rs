//! Numbered migrations, forward only, recorded in `oncegate.migrations` with the checksum of their text.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tokio::time::{Duration, sleep};
use tokio_postgres::{Client, GenericClient, IsolationLevel, error::SqlState, types::Type};

use super::{
    address::{Address, ConnectError},
    error::unreachable,
};

// === types ===

/// A connection that looks at a database's schema and brings it up to date.
///
/// It keeps no state in the session, so it may go through PgBouncer.
pub struct Migrator(Client);

/// One file of `migrations/`.
#[derive(Debug)]
struct Migration {
    number: i32,
    name: &'static str,
    text: &'static str,
}

/// What a database says was applied to it.
#[derive(Debug)]
struct Applied {
    number: i32,
    name: String,
    checksum: String,
}

/// Why a schema was left as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A newer oncegate has migrated it.
    #[error("the database has schema {found} ({name}), and this program knows {known} at most: use the newer program")]
    Newer {
        /// The database's schema.
        found: i32,
        /// The name of its last migration.
        name: String,
        /// The newest known one.
        known: i32,
    },
    /// What was applied is not what this program would have applied.
    #[error(
        "migration {number} ({name}) was applied in another form than this program has: use the program that applied it, or restore"
    )]
    Differs {
        /// Which one.
        number: i32,
        /// Its name in the database.
        name: String,
    },
    /// Some are missing before others.
    #[error("migration {number} is missing in the database although a later one was applied: restore it")]
    Gap {
        /// Which one.
        number: i32,
    },
    /// There is no connection.
    #[error("{}", unreachable(.0))]
    NotConnected(#[source] ConnectError),
    /// Somebody keeps a table.
    #[error(
        "another session keeps a table of oncegate locked (a backup, a transaction left open), {tries} tries long: end it and try again"
    )]
    Locked {
        /// How often it was tried.
        tries: u32,
    },
    /// The server would not.
    #[error("the database could not be migrated")]
    Failed(#[from] tokio_postgres::Error),
}

// === the migrations ===

/// Migration `n` leads from schema `n - 1` to `n`.
const MIGRATIONS: [Migration; 13] = [
    Migration { number: 1, name: "create_records", text: include_str!("migrations/001_create_records.sql") },
    Migration { number: 2, name: "create_functions", text: include_str!("migrations/002_create_functions.sql") },
    Migration { number: 3, name: "create_operations", text: include_str!("migrations/003_create_operations.sql") },
    Migration { number: 4, name: "create_batches", text: include_str!("migrations/004_create_batches.sql") },
    Migration { number: 5, name: "disown_completions", text: include_str!("migrations/005_disown_completions.sql") },
    Migration { number: 6, name: "sweep_by_birth", text: include_str!("migrations/006_sweep_by_birth.sql") },
    Migration { number: 7, name: "spare_lone_callers", text: include_str!("migrations/007_spare_lone_callers.sql") },
    Migration { number: 8, name: "note_suspicions", text: include_str!("migrations/008_note_suspicions.sql") },
    Migration { number: 9, name: "remember_front", text: include_str!("migrations/009_remember_front.sql") },
    Migration {
        number: 10,
        name: "look_before_claiming",
        text: include_str!("migrations/010_look_before_claiming.sql"),
    },
    Migration { number: 11, name: "time_completions", text: include_str!("migrations/011_time_completions.sql") },
    Migration { number: 12, name: "open_outbox", text: include_str!("migrations/012_open_outbox.sql") },
    Migration { number: 13, name: "enter_by_values", text: include_str!("migrations/013_enter_by_values.sql") },
];

const SCHEMA: i32 = 13;

/// Who waits for a table has all who come later wait as well, every claim among them, and a backup keeps its tables for
/// hours. So a migration waits for half as long as claims do before they are refused, and leaves them a pause before it
/// tries again.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '100ms'";
const LOCK_PAUSE: Duration = Duration::from_secs(1);
const LOCK_TRIES_MAX: u32 = 60;

/// Excludes other instances that start at the same time: "oncegate".
const LOCK: i64 = i64::from_be_bytes(*b"oncegate");

// === impl Migrator ===

impl Migrator {
    /// The newest schema that this program knows.
    pub const SCHEMA: i32 = SCHEMA;

    /// Connects; nothing is changed yet.
    ///
    /// # Errors
    /// The server cannot be reached, or lets nobody in.
    pub async fn connect(address: &Address) -> Result<Self, MigrateError> {
        let (client, _) = address.connect().await.map_err(MigrateError::NotConnected)?;
        Ok(Self(client))
    }

    /// How many steps the database is behind this program.
    ///
    /// # Errors
    /// As [`Self::migrate`]. Cancelled: nothing happens.
    pub async fn pending(&self) -> Result<usize, MigrateError> {
        Ok(pending(&self.0).await?.len())
    }

    /// Brings the schema up to date, all steps or none, and answers how many there were.
    ///
    /// Many instances may call it at once: one applies, the others wait for it and find nothing left to do. Where another
    /// session keeps a table, it is tried again for about a minute, and claims go on in between.
    ///
    /// # Errors
    /// See [`MigrateError`]; nothing was changed then. Cancelled: all steps were applied, or none; call it again.
    pub async fn migrate(&mut self) -> Result<usize, MigrateError> {
        let Self(client) = self;
        // Who has nothing to do takes no lock and needs no right to change anything.
        if pending(client).await?.is_empty() {
            return Ok(0);
        }
        for _ in 0..LOCK_TRIES_MAX {
            match Self::apply(client).await {
                Err(MigrateError::Failed(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tracing::warn!("another session keeps a table of oncegate locked: the migration is tried again");
                    sleep(LOCK_PAUSE).await;
                }
                applied => return applied,
            }
        }
        Err(MigrateError::Locked { tries: LOCK_TRIES_MAX })
    }

    async fn apply(client: &mut Client) -> Result<usize, MigrateError> {
        let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
        transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
        transaction.batch_execute(LOCK_TIMEOUT).await?;
        let pending = pending(&transaction).await?;
        for migration in pending {
            let Migration { number, name, text } = migration;
            transaction.batch_execute(text).await?;
            let checksum = migration.checksum();
            let row = [(number as _, Type::INT4), (name as _, Type::TEXT), (&checksum as _, Type::TEXT)];
            transaction.query_typed(NOTE, &row).await?;
        }
        transaction.commit().await?;
        Ok(pending.len())
    }

    /// The script by which `psql` does what [`Self::migrate`] would do to this database; empty when nothing is left
    /// to do.
    ///
    /// # Errors
    /// As [`Self::migrate`]. Cancelled: nothing happens.
    pub async fn script(&self) -> Result<String, MigrateError> {
        let pending = pending(&self.0).await?;
        if pending.is_empty() {
            return Ok(String::new());
        }
        let mut script = format!(
            "\\set ON_ERROR_STOP on\nBEGIN;\nDO $$BEGIN PERFORM pg_advisory_xact_lock({LOCK}); END$$;\n{LOCK_TIMEOUT};\n"
        );
        for migration in pending {
            let Migration { number, name, text } = migration;
            write!(
                script,
                "\n-- === {number:03}_{name}.sql ===\n\n{text}\nINSERT INTO oncegate.migrations (number, name, checksum) \
                 VALUES ({number}, '{name}', '{}');\n",
                migration.checksum()
            )
            .expect("writing to a string cannot fail");
        }
        script += "\nCOMMIT;\n";
        Ok(script)
    }
}

impl std::fmt::Debug for Migrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Migrator")
    }
}

// === what was applied ===

/// Reads the catalogue itself: `to_regclass` would go by what the session remembers, and who has waited for the lock
/// remembers that there was no schema.
const ANYTHING: &str = "
    SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'oncegate' AND c.relname = 'migrations'";

const NOTE: &str = "INSERT INTO oncegate.migrations (number, name, checksum) VALUES ($1, $2, $3)";

/// What is still to be applied.
async fn pending(client: &impl GenericClient) -> Result<&'static [Migration], MigrateError> {
    let applied = applied(client).await?;
    if let Some(newest) = applied.last().filter(|newest| newest.number > SCHEMA) {
        return Err(MigrateError::Newer { found: newest.number, name: newest.name.clone(), known: SCHEMA });
    }
    for (known, found) in MIGRATIONS.iter().zip(&applied) {
        if known.number != found.number {
            return Err(MigrateError::Gap { number: known.number });
        }
        if known.checksum() != found.checksum {
            return Err(MigrateError::Differs { number: found.number, name: found.name.clone() });
        }
    }
    Ok(&MIGRATIONS[applied.len()..])
}

/// What was applied, in order.
async fn applied(client: &impl GenericClient) -> Result<Vec<Applied>, MigrateError> {
    if client.query_typed(ANYTHING, &[]).await?.is_empty() {
        return Ok(Vec::new());
    }
    let rows =
        client.query_typed("SELECT number, name, checksum FROM oncegate.migrations ORDER BY number", &[]).await?;
    let read = |row: &tokio_postgres::Row| Applied { number: row.get(0), name: row.get(1), checksum: row.get(2) };
    Ok(rows.iter().map(read).collect())
}

// === impl Migration ===

impl Migration {
    /// SHA-256 of the text, hexadecimal.
    fn checksum(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in Sha256::digest(self.text) {
            write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_from_one_without_a_gap() {
        let numbers: Vec<_> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=SCHEMA).collect::<Vec<_>>());
    }
}
