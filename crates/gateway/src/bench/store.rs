//! `oncegate bench store`: how many requests a store can guard, against what people have without it.
//!
//! A *cycle* is what one request asks of a store: a claim, and later its completion with an answer of 400 bytes. Each
//! caller goes on as soon as it has its answer, always with a new key.
//!
//! | row | what |
//! |---|---|
//! | `plain-N` | the recipe of two statements, an INSERT and an UPDATE, each a commit, on a pool of N connections |
//! | `ours` | the store, as a gateway uses it |
//! | `one-commit` | SQLite only: the store, told to commit each verb alone |
//! | `bare`, `claim`, `enter` | with `--strategies`: a handler of one INSERT, bare and guarded by the SQL functions |
//! | `ours-claims`, `benchmark-claims`, `benchmark-set` | with `--redis`: claims of the store, the same sent by `redis-benchmark`, and its `SET … NX PX` |
//! | `authoritative`, `outbox`, `drained` | with `--outbox`: the store behind a Redis, without an outbox and with one, and what an outbox that is full is drained at |
//! | `ours-small`, `ours-large` | with `--rows`: the store beside 100,000 completed records, and beside so many |
//!
//! All rows of a run are on one server or disk, rounds are interleaved, and figures are medians of rounds, so that a
//! machine whose speed drifts does not favour a row. What is reported is counted again as rows.

use std::process::ExitCode;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

use self::{place::Place, report::Report};
use crate::{bench::cluster::Cluster, store_address::StoreAddress};

mod growth;
mod load;
mod lone;
mod outbox;
mod place;
mod postgres;
mod redis;
mod report;
mod row;
mod sqlite;
mod strategies;

// === types ===

/// Compare a store with the plain recipe of two statements
///
/// Needs PostgreSQL, or the address of one where the role may make databases: everything happens in a database of its
/// own, which is dropped at the end. Existing records are never touched. Run it from a release build, on a machine and
/// a server that do nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The server, or the disk by the address of a file on it [default: a PostgreSQL of its own, in a temporary folder]
    #[arg(long, value_name = "ADDRESS")]
    store: Option<StoreAddress>,

    /// How many callers ask at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,

    /// How long each row is measured in each round
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Instead of the recipe, compare the store beside so many completed records with itself beside 100,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,

    /// Instead, compare a handler of one INSERT that is guarded by the SQL functions with the same one, bare
    #[arg(long, conflicts_with = "rows")]
    strategies: bool,

    /// Instead, compare the store on a Redis of its own with redis-benchmark, which sends the very same claims
    #[arg(long, value_name = "SERVERS", value_enum, conflicts_with_all = ["store", "rows", "strategies", "settings"])]
    redis: Option<redis::Which>,

    /// Instead, compare the store behind a Redis of its own with an outbox with the same without one
    #[arg(long, conflicts_with_all = ["rows", "strategies", "redis"])]
    outbox: bool,

    /// A setting of the PostgreSQL of its own, such as wal_compression=lz4; may be repeated
    #[arg(long = "setting", value_name = "NAME=VALUE", conflicts_with = "store")]
    settings: Vec<String>,

    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
}

/// What is compared on a server.
#[derive(Debug, Clone, Copy)]
enum What {
    Recipe,
    Growth(u64),
    Strategies,
    Outbox,
}

/// How much is asked.
#[derive(Debug, Clone, Copy)]
struct Size {
    callers: usize,
    seconds: u32,
    rounds: u32,
}

const EXAMPLES: &str = "\
Examples:
  oncegate bench store
  oncegate bench store --store postgres://bench:secret@db.internal/postgres --json
  oncegate bench store --store sqlite:///var/lib/oncegate/bench.db
  oncegate bench store --strategies --callers 16
  oncegate bench store --redis cluster
  oncegate bench store --outbox
  oncegate bench store --rows 10000000 --seconds 60 --setting wal_compression=lz4";

// === impl Arguments ===

impl Arguments {
    fn what(&self) -> What {
        match self.rows {
            _ if self.strategies => What::Strategies,
            _ if self.outbox => What::Outbox,
            Some(rows) => What::Growth(rows),
            None => What::Recipe,
        }
    }
}

// === the command ===

/// Runs the rounds and prints the report. Exit code 1: something did not go as it must, so the figures mean nothing.
///
/// # Errors
/// PostgreSQL is missing or cannot be reached, is not durable, or failed meanwhile.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build: its figures say nothing about a release");
    }
    let callers = usize::try_from(arguments.callers)?;
    let size = Size { callers, seconds: arguments.seconds, rounds: arguments.rounds };
    let report = match &arguments.store {
        None if let Some(which) = arguments.redis => unless_interrupted(redis::measure(which, size)).await?,
        Some(StoreAddress::Memory) => bail!("a store in memory has nothing to measure: name a server or a file"),
        Some(StoreAddress::Redis(_)) => bail!("a Redis is measured on servers of its own: --redis single, or cluster"),
        Some(StoreAddress::Sqlite(_)) if arguments.rows.is_some() || arguments.strategies || arguments.outbox => {
            bail!("--rows, --strategies and --outbox need a PostgreSQL")
        }
        Some(StoreAddress::Sqlite(path)) => unless_interrupted(sqlite::measure(path, size)).await?,
        Some(StoreAddress::Postgres(address)) => measure(address, None, size, arguments.what()).await?,
        None => {
            let cluster = Cluster::start(&arguments.settings).await?;
            let report = measure(cluster.address(), Some(cluster.pid()), size, arguments.what()).await;
            cluster.stop().await?;
            report?
        }
    };
    report.print(arguments.json)?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// On a server, in a place of its own that is cleared away, whatever happens.
async fn measure(
    address: &oncegate_store::postgres::Address,
    postmaster: Option<u32>,
    size: Size,
    what: What,
) -> anyhow::Result<Report> {
    let place = Place::prepare(address, postmaster).await?;
    let outcome = unless_interrupted(async {
        match what {
            What::Recipe => postgres::measure(&place, size).await,
            What::Growth(rows) => growth::measure(&place, size, rows).await,
            What::Strategies => strategies::measure(&place, size).await,
            What::Outbox => outbox::measure(&place, size).await,
        }
    });
    let outcome = outcome.await;
    place.clear().await?;
    outcome
}

/// Stops in good order when a person has seen enough.
async fn unless_interrupted<T>(measured: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = measured => outcome,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}
