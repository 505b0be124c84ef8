//! `oncegate lab`: what breaks first when requests are repeated, measured on a real database.
//!
//! Small programs as people write them ([`naive`]) and the same handler on oncegate ([`guarded`]) are stormed ([`storm`])
//! with rising concurrency, and with workers that die or stand still ([`shop::Fault`]). What happened is read from a
//! ledger that takes every payment. `docs/lab.md` explains it to users.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

mod cache;
mod guarded;
mod naive;
mod order;
mod place;
mod pool;
mod program;
mod report;
mod shop;
mod storm;

use self::{
    cache::Cache,
    place::Place,
    report::Report,
    shop::{Fault, Shop},
    storm::Storm,
};
use crate::store_address::StoreAddress;

// === types ===

/// Show what breaks first when requests are repeated, and what does not
///
/// Storms small naive programs, and the same handler on oncegate, with rising concurrency and with workers that die or
/// stand still, and counts payments in a ledger. Runs on a PostgreSQL of its own where the programs are installed, else
/// on SQLite. Nothing is left behind.
///
/// Exit code 0: every row of oncegate kept its promise; 1: one did not, and is marked.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The PostgreSQL to measure on, by an address whose role may make databases; everything happens in one of the
    /// lab's own, which is dropped at the end [default: one that the lab starts, in a temporary folder]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "sqlite")]
    postgres: Option<StoreAddress>,

    /// Measure on SQLite, in a temporary file, also where PostgreSQL is installed
    #[arg(long)]
    sqlite: bool,

    /// How many clients send one key at the same instant; each number is a row
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [1, 2, 5, 10, 50, 300],
          value_parser = clap::value_parser!(u16).range(1..=300))]
    concurrency: Vec<u16>,

    /// Also write a report with charts, one file that opens offline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  oncegate lab
  oncegate lab --html report.html
  oncegate lab --postgres postgres://lab:secret@db.internal/postgres --json
  oncegate lab --sqlite --concurrency 1,10,100";

/// Requests of one row, about; fewer keys where each has many clients.
const REQUESTS: usize = 300;

/// Keys of one row at most, and at least.
const KEYS: std::ops::RangeInclusive<usize> = 3..=20;

/// The row in which workers are struck: a client and its repeats, for some keys.
const STRUCK_CONCURRENCY: usize = 5;
const STRUCK_KEYS: usize = 10;

const FAULTS: [Fault; 4] = [Fault::CrashBeforeEffect, Fault::CrashAfterEffect, Fault::Pause, Fault::CacheRestart];

// === the command ===

/// Storms everything and prints what came of it.
///
/// # Errors
/// The database cannot be had, or failed meanwhile; the report cannot be written.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let place = match &arguments.postgres {
        _ if arguments.sqlite => Place::sqlite()?,
        Some(StoreAddress::Postgres(address)) => Place::postgres(address).await?,
        Some(_) => bail!("--postgres takes an address that begins with postgres://"),
        None => Place::found().await?,
    };
    eprintln!("on {}", place.name());
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let outcome = tokio::select! {
        outcome = measure(&place, &arguments.concurrency) => outcome,
        _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow::anyhow!("terminated")),
    };
    place.clear().await?;
    let report = outcome?;
    if let Some(path) = &arguments.html {
        std::fs::write(path, report.html()).with_context(|| format!("{} cannot be written", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    report.print(arguments.json)?;
    Ok(if report.keeps_the_promise() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(place: &Place, concurrency: &[u16]) -> anyhow::Result<Report> {
    let shop = Shop::open(place.database().clone(), place.connections(), cache().await);
    let shop = Arc::new(shop.await.context("opening the ledger")?);
    let mut programs = naive::all(shop.database(), shop.has_cache());
    programs.extend(guarded::all(&shop)?);
    let storms = storms(concurrency);
    let bar = progress(programs.len() * storms.len());
    let mut rows = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let about = program.about();
        if bar.is_hidden() {
            // Not a terminal: a line for each program instead of a bar.
            eprintln!("{}/{} {}", number + 1, programs.len(), about.implementation);
        }
        shop.furnish(about.tables).await.with_context(|| format!("making the tables of {}", about.implementation))?;
        for (storm_number, storm) in storms.iter().enumerate() {
            bar.set_message(format!("{} × {}", about.implementation, storm.concurrency));
            if program.can_meet(storm.fault) {
                let prefix = format!("{number}-{storm_number}-");
                rows.push(storm.run(program.as_ref(), &shop, &prefix).await.context("reading the ledger")?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Report::new(place.name().to_owned(), &programs, rows))
}

/// A Redis for who remembers keys there, if it is installed.
async fn cache() -> Option<Cache> {
    let started = Cache::start().await;
    started.inspect_err(|error| eprintln!("no Redis can be started here, so without SET NX: {error:#}")).ok()
}

/// What every program goes through.
fn storms(concurrency: &[u16]) -> Vec<Storm> {
    let calm = concurrency.iter().map(|&concurrency| {
        let concurrency = usize::from(concurrency);
        let keys = (REQUESTS / concurrency).clamp(*KEYS.start(), *KEYS.end());
        Storm { fault: Fault::None, concurrency, keys }
    });
    let struck = FAULTS.into_iter().map(|fault| Storm { fault, concurrency: STRUCK_CONCURRENCY, keys: STRUCK_KEYS });
    calm.chain(struck).collect()
}

fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("the template is right");
    ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)).with_style(style)
}
