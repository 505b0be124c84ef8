//! `oncegate records`: what operators see of records and do to them, on the store itself.
//!
//! It works whether or not a gate runs. What it changes takes effect in every gate on the store within
//! five seconds, since none remembers a completed record for longer.

use std::{process::ExitCode, sync::Arc};

use clap::Subcommand;
use oncegate_store::observer::Unobserved;

use crate::config::{self, StoreSettings};

mod audit;
pub(crate) mod desk;
pub(crate) mod json;
mod list;
pub(crate) mod name;
pub(crate) mod response;
mod rule;
mod show;
mod suspected;
pub(crate) mod table;

use self::desk::Desk;
use crate::open_store::{self, Opener};

// === types ===

/// Look at records, and resolve, release or purge one
///
/// Works on the store itself, whether or not a gate runs; takes effect in every gate within 5 s.
///
/// Exit code 0: done; 1: refused, or not found, nothing was changed; 2: wrong usage.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: config::StoreSources,

    #[command(subcommand)]
    command: Command,
}

/// One file each; the three that change something share one.
#[derive(Debug, Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Resolve(rule::Resolve),
    Release(rule::Release),
    Purge(rule::Purge),
    Audit(audit::Arguments),
    Suspected(suspected::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  oncegate records list --state unknown
  oncegate records show 8e03978e-40d5-43e8-bc93-6894a57f9324 --scope acme
  oncegate records resolve 9f86d081 --fence 12 --status 201 --body @receipt.json --reason 'charge ch_1 exists'
  oncegate records release 9f86d081 --fence 12 --reason 'no charge at the provider'
  oncegate records purge 9f86d081 --fence 12 --reason 'wrong answer of release 1.4.2'
  oncegate records audit
  oncegate records suspected";

/// Wrong usage or configuration, as clap has it for wrong flags.
const EXIT_USAGE: u8 = 2;

// === the command ===

/// Does what was asked. An error means that nothing was changed, or that the store did not say.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { sources, command } = arguments;
    let settings = match config::load_store(&sources, std::env::vars_os()) {
        Ok(settings) => settings,
        Err(faults) => {
            eprintln!("{faults}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let desk = open(settings).await?;
    match command {
        Command::List(arguments) => list::run(&desk, arguments).await,
        Command::Show(arguments) => show::run(&desk, arguments).await,
        Command::Resolve(arguments) => rule::resolve(&desk, &sources, arguments).await,
        Command::Release(arguments) => rule::release(&desk, &sources, arguments).await,
        Command::Purge(arguments) => rule::purge(&desk, &sources, arguments).await,
        Command::Audit(arguments) => audit::run(&desk, arguments).await,
        Command::Suspected(arguments) => suspected::run(&desk, arguments).await,
    }
}

/// Opens a store that is there.
async fn open(settings: StoreSettings) -> anyhow::Result<Desk> {
    let store = open_store::open(&settings, Opener::Visitor, Arc::new(Unobserved)).await?;
    Ok(Desk { store, timeout: settings.timeout })
}

/// Wrong usage that clap cannot see.
fn usage(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(EXIT_USAGE)
}
