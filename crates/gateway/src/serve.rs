//! `oncegate serve`: guards a service.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::{config, store_address::StoreAddress};

mod announce;
mod census;
mod door;
mod gate;
pub(crate) mod health;
mod live_records;
mod log;
mod probe;
mod reaper;
pub(crate) mod reload;
pub(crate) mod route_table;
mod running;
mod signals;
mod suspect;
#[cfg(test)]
mod tests;

use self::{
    gate::Gate,
    log::LogFormat,
    signals::{Demand, Signals},
};

// === types ===

/// Guard a service: execute each request with a key once, and answer its repeats with the first answer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: config::Sources,

    /// Guard nothing: only the admin listener, for operators, over the records of services that guard themselves
    #[arg(long, conflicts_with_all = ["upstream", "listen", "print_config"])]
    admin_only: bool,

    /// Print the effective configuration and where each value comes from, and exit
    #[arg(long)]
    print_config: bool,

    /// Count and suspect nothing, for `oncegate bench gateway --watching` to compare with
    #[arg(long, hide = true)]
    unwatched: bool,

    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text, env = "ONCEGATE_LOG_FORMAT")]
    log_format: LogFormat,

    /// What is logged: a level, or TARGET=LEVEL,...
    #[arg(long, value_name = "FILTER", default_value = "info", env = "ONCEGATE_LOG")]
    log: String,
}

const EXAMPLES: &str = "\
Examples:
  oncegate serve --upstream http://127.0.0.1:8000
  oncegate serve --config /etc/oncegate.toml --listen 0.0.0.0:8080
  ONCEGATE__DEFAULTS__WAIT=2s oncegate serve --upstream http://app:8000 --print-config
  oncegate serve --admin-only --store postgres://db.internal/shop

SIGTERM and SIGINT stop it after what is running has ended; a second one stops it at once.
SIGHUP reads the configuration again; a faulty one is refused and changes nothing.";

/// Wrong usage or configuration, as clap has it for wrong flags: starting again cannot help.
const EXIT_USAGE: u8 = 2;

// === the command ===

/// Serves until a signal.
///
/// Exit codes: 0, everything ended in time; 1, it could not start or something was cut; 2, wrong configuration.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { config: sources, admin_only, .. } = arguments;
    let sources = if admin_only { sources.without_service() } else { sources };
    let config = match config::load(&sources, std::env::vars_os()) {
        Ok(config) => config,
        Err(faults) => {
            eprintln!("{faults}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    if arguments.print_config {
        crate::print(&config.print())?;
        return Ok(ExitCode::SUCCESS);
    }
    if admin_only && config.store.address == StoreAddress::Memory {
        eprintln!(
            "--admin-only shows what others have stored: name their store, since nobody has {}",
            StoreAddress::Memory
        );
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    log::start(arguments.log_format, &arguments.log)?;
    let mut signals = Signals::new().context("signals cannot be listened for")?;
    let watch = !arguments.unwatched;
    let gate =
        if admin_only { Gate::prepare_admin(config, watch).await? } else { Gate::prepare(config, watch).await? };
    let (mut running, mut reloader) = gate.start(arguments.log_format, sources).await?;

    let signal = loop {
        tokio::select! {
            demand = signals.next() => match demand {
                Demand::Stop(signal) => break signal,
                Demand::Reload => reloader.reload(),
            },
            () = running.ended() => anyhow::bail!("a listener ended by itself"),
        }
    };
    tracing::info!(signal, "stopping");
    tokio::select! {
        cut = running.stop() => Ok(cut.exit_code()),
        signal = signals.stop() => {
            tracing::warn!(signal, "stopped at once by a second signal");
            // Not by returning: that would wait for what still runs.
            std::process::exit(1)
        }
    }
}
