//! The log on standard error.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, fmt};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging what passes `filter`, such as `info` or `oncegate=debug,info`.
pub(super) fn start(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let parsed = EnvFilter::try_new(filter).with_context(|| {
        format!("--log {filter:?}: write a level (error, warn, info, debug, trace) or TARGET=LEVEL,...")
    })?;
    let log = fmt().with_env_filter(parsed).with_writer(io::stderr);
    let started = match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

impl LogFormat {
    /// Says something that must be seen whatever the filter is: a plain line, or an object like all others.
    pub(super) fn announce(self, line: &str) {
        match self {
            Self::Text => eprintln!("{line}"),
            Self::Json => eprintln!("{}", serde_json::json!({ "level": "INFO", "message": line })),
        }
    }
}
