//! `oncegate demo`: what repeats do to a service, and what the gate makes of them; it needs nothing.
//!
//! A sample payments service runs in this process, the gate in processes of its own, so that it can be killed. The
//! flow, one file per step:
//!
//! stage (service, gate, operator) → scenes (client) → shown → judge → report
//!
//! Whatever is printed as true was counted by the service itself; `docs/demo.md` explains it to users.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

mod client;
mod gate;
mod judge;
mod operator;
mod own;
mod report;
mod scenes;
mod service;
mod shown;
mod stage;

use self::{report::Report, stage::Stage};

/// Show what repeats do to a sample service, with and without the gate
///
/// Starts a payments service and a gate on free ports of this machine, sends repeats, kills the gate in between, and prints
/// what the service counted. Nothing is left behind.
///
/// Exit code 0: all that it shows is true; 1: something is not, and marked.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave the service and the gate running until Ctrl-C, to play with
    #[arg(long)]
    keep: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Plays all scenes and prints what they showed.
///
/// # Errors
///
/// Something could not be started, or a signal came before everything was shown. What was started has ended then, too.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut stop = Stop::new().context("signals cannot be listened for")?;
    let mut stage = Stage::set().await?;
    let ended = play(&mut stage, &mut stop, &arguments).await;
    let cleared = stage.clear().await;
    let code = ended?;
    cleared?;
    Ok(code)
}

async fn play(stage: &mut Stage, stop: &mut Stop, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let shown = tokio::select! {
        shown = scenes::play(stage) => shown?,
        signal = stop.signal() => bail!("{signal} came before everything was shown"),
    };
    let report = Report::new(stage, shown, arguments.keep)?;
    report.print(arguments.json).context("cannot write the report")?;
    if arguments.keep {
        eprintln!("running until Ctrl-C");
        let signal = stop.signal().await;
        eprintln!("{signal}: stopping the gate and the service");
    }
    Ok(report.exit_code())
}

/// The signals that end the demo. It listens from its making on.
#[derive(Debug)]
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

// === impl Stop ===

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // The terminal is closed: without a listener the gate would outlive this process.
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
