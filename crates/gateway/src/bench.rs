//! `oncegate bench`: measures, in ratios that anyone can repeat on one machine.

use std::process::ExitCode;

mod bare_proxy;
mod cluster;
mod cpu;
mod cycle;
mod gateway;
mod process;
mod redis;
mod store;
mod target;

pub(crate) use self::{cluster::Cluster, redis::Redis};

/// Measure how fast the gate and its stores are
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Gateway(gateway::Arguments),
    Store(store::Arguments),
    #[command(hide = true)]
    BareProxy(bare_proxy::Arguments),
}

/// Measures and prints.
///
/// # Errors
/// What was needed is missing, or did not start.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.what {
        What::Gateway(arguments) => gateway::run(arguments).await,
        What::Store(arguments) => store::run(arguments).await,
        What::BareProxy(arguments) => bare_proxy::run(arguments).await,
    }
}
