//! `oncegate migrate`: brings the schema of a PostgreSQL database up to date, or prints how.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use oncegate_store::postgres::{Address, Migrator};

// === types ===

/// Bring the schema of a PostgreSQL store up to date
///
/// All steps are applied, or none, and many may run it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The database: postgres://user:password@host/database
    #[arg(long, value_name = "ADDRESS", env = "ONCEGATE__STORE__URL", hide_env_values = true)]
    store: String,

    /// Change nothing; print the SQL that would be run, for psql
    #[arg(long)]
    print: bool,
}

const EXAMPLES: &str = "\
Examples:
  oncegate migrate --store postgres://owner@db.internal/shop
  oncegate migrate --print --store postgres://reader@db.internal/shop > schema.sql";

// === the command ===

/// Migrates, or prints a script.
///
/// # Errors
/// The address is not one of PostgreSQL, or the database cannot be reached or migrated.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut migrator = connect(&arguments.store).await?;
    if arguments.print {
        let script = migrator.script().await?;
        match script.is_empty() {
            true => eprintln!("the schema is {}, nothing is left to do", Migrator::SCHEMA),
            false => crate::print(&script)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    match migrator.migrate().await? {
        0 => eprintln!("the schema is {}, nothing was left to do", Migrator::SCHEMA),
        steps => eprintln!("the schema is {} now, after {steps} migrations", Migrator::SCHEMA),
    }
    Ok(ExitCode::SUCCESS)
}

async fn connect(store: &str) -> anyhow::Result<Migrator> {
    // Not repeated in a message: it may hold a password.
    if !["postgres://", "postgresql://"].iter().any(|scheme| store.starts_with(scheme)) {
        bail!("only a PostgreSQL store has a schema to migrate: write --store postgres://user:password@host/database");
    }
    let address: Address = store.parse()?;
    Migrator::connect(&address).await.with_context(|| format!("store {address}"))
}
