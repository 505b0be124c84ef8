//! `oncegate migrate`: brings the schema of a PostgreSQL database up to date, or prints how.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use oncegate_store::postgres::Migrator;

use crate::{config, store_address::StoreAddress};

// === types ===

/// Bring the schema of a PostgreSQL store up to date
///
/// All steps are applied, or none, and many may run it at once. The address is read as `serve` reads it, also from
/// the configuration, from ONCEGATE__STORE__URL, or from the file that ONCEGATE__STORE__URL_FILE names.
///
/// Exit code 0: done; 1: refused, nothing was changed; 2: wrong usage.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: config::StoreSources,

    /// Change nothing; print the SQL that would be run, for psql
    #[arg(long)]
    print: bool,
}

const EXAMPLES: &str = "\
Examples:
  oncegate migrate --store postgres://owner@db.internal/shop
  ONCEGATE__STORE__URL_FILE=/run/secrets/owner oncegate migrate
  oncegate migrate --print --store postgres://reader@db.internal/shop > schema.sql";

/// Wrong usage or configuration, as clap has it for wrong flags.
const EXIT_USAGE: u8 = 2;

// === the command ===

/// Migrates, or prints a script.
///
/// # Errors
/// The address is not one of PostgreSQL, or the database cannot be reached or migrated.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let address = match config::load_store(&arguments.sources, std::env::vars_os()) {
        Ok(settings) => settings.address,
        Err(faults) => {
            eprintln!("{faults}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let mut migrator = connect(&address).await?;
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

async fn connect(address: &StoreAddress) -> anyhow::Result<Migrator> {
    let StoreAddress::Postgres(postgres) = address else {
        bail!(
            "only a PostgreSQL store has a schema to migrate, and the store is {address}: write --store \
             postgres://user:password@host/database"
        );
    };
    Migrator::connect(postgres).await.with_context(|| format!("store {address}"))
}
