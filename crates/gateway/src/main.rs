//! The `oncegate` command.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

mod access_log;
mod admin;
mod bench;
mod check;
mod config;
mod demo;
mod lab;
mod metrics;
mod migrate;
mod open_store;
mod proxy;
mod records;
mod serve;
mod store_address;
mod storm;
mod well_known;

// Every request allocates some dozens of times.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes repeated requests harmless: one Idempotency-Key, one effect.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One file each.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, made once")]
enum Command {
    Serve(serve::Arguments),
    Check(check::Arguments),
    Records(records::Arguments),
    Demo(demo::Arguments),
    Storm(storm::Arguments),
    Lab(lab::Arguments),
    Bench(bench::Arguments),
    Migrate(migrate::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Check(arguments) => check::run(arguments).await,
        Command::Records(arguments) => records::run(arguments).await,
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Storm(arguments) => storm::run(arguments).await,
        Command::Lab(arguments) => lab::run(arguments).await,
        Command::Bench(arguments) => bench::run(arguments).await,
        Command::Migrate(arguments) => migrate::run(arguments).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Writes data, as opposed to talk, which goes to standard error.
fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
