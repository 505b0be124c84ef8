//! The `oncegate` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod storm;

/// Makes repeated requests harmless: one Idempotency-Key, one effect.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Storm(storm::Arguments),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Storm(arguments) => storm::run(arguments).await,
    }
}
