//! `oncegate bench gateway`: what passing through, guarding and replaying cost.
//!
//! Every component is a process of its own. The load (wrk, one thread, 64 connections, a small JSON POST) and the
//! upstream (nginx, one worker, `return 201`) are fixed; only what stands between them changes:
//!
//! | row | between |
//! |---|---|
//! | nginx | nginx, `proxy_pass`, one worker |
//! | bare | the least that a proxy of hyper-util can be ([`super::bare_proxy`]) |
//! | passing | the gate; requests without a key |
//! | unique | the gate on SQLite; a new key with every request |
//! | memory | the gate; 64 keys that it has just executed, over and over |
//! | fresh | the gate, just started; the keys of `unique` again, which it has to read from SQLite |
//! | postgres | as `unique`, the gate on PostgreSQL, as durable as it comes |
//! | postgres-fresh | as `fresh`, from PostgreSQL |
//! | tiered | as `unique`, the gate on that PostgreSQL with a Redis in front |
//! | outbox | the same with `durability = "outbox"`, which is closed (and answers 503) if PostgreSQL is a second behind |
//!
//! Rounds are interleaved and figures are medians of rounds, so that a machine whose speed drifts does not favour a row.
//! Where the CPU time of two proxies is compared, both are loaded at the same time, for the same reason.
//! CPU time is that of each process, from `/proc`. Whether the upstream was reached as often as it should is counted.

use std::process::ExitCode;

use anyhow::Context as _;
use tempfile::TempDir;

mod commits;
mod nginx;
mod paced;
mod programs;
mod report;
mod round;
mod watching_report;
mod wrk;

use self::{programs::Programs, report::Report, round::Bench, watching_report::WatchingReport};

/// How long a gate that is compared with itself is measured before it is another one's turn.
const TURN_SECONDS: u32 = 1;

/// Compare the gate with nginx and with a bare proxy
///
/// Needs wrk, nginx, Redis and PostgreSQL. Prints requests per second, latency and the CPU time of each process per request, and the
/// ratios that matter, with their targets. Run it on an otherwise idle machine, from a release build.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How long each row is measured in each round
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,

    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Compare the gate as it comes, and with an access log, with one that neither counts nor suspects, a second of each in turn;
    /// nothing else
    #[arg(long)]
    watching: bool,

    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
}

/// Runs the rounds and prints the report. Exit code 1: something did not go as it must, so the figures mean nothing.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let programs = Programs::find()?;
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build: its figures say nothing about a release");
    }
    let directory = TempDir::new().context("no temporary directory can be made")?;
    if arguments.watching {
        let bench = Bench::start(&programs, directory.path(), TURN_SECONDS).await?;
        return watching(bench, &arguments).await;
    }
    let bench = Bench::start(&programs, directory.path(), arguments.seconds).await?;
    let mut report = Report::new(arguments.seconds, bench.commits().await?);
    for number in 1..=arguments.rounds {
        eprintln!("round {number} of {}", arguments.rounds);
        report.add(bench.round(number).await?);
    }
    bench.stop().await;
    report.print(arguments.json)?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same, of what watching costs.
async fn watching(bench: Bench, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut report = WatchingReport::default();
    for number in 1..=arguments.rounds {
        eprintln!("round {number} of {}", arguments.rounds);
        report.0.extend(bench.watching(number, arguments.seconds / TURN_SECONDS).await?);
    }
    bench.stop().await;
    report.print(arguments.json)?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
