//! `oncegate records list`.

use std::process::ExitCode;

use clap::ValueEnum;
use oncegate_core::{Filter, IdempotencyKey, StateName};
use serde_json::json;

use super::{
    desk::{self, Desk},
    json, table,
};

/// List records, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only this state
    #[arg(long, value_enum)]
    state: Option<StateArgument>,

    /// Only those in flight past their lease
    #[arg(long)]
    abandoned: bool,

    /// Only this key of a client
    #[arg(long)]
    key: Option<String>,

    /// Only scopes that contain this text, such as the name of a tenant
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StateArgument {
    InFlight,
    Completed,
    Unknown,
}

pub(super) async fn run(desk: &Desk, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let key = arguments.key.as_ref().map(|key| IdempotencyKey::parse(key.as_bytes())).transpose();
    let key = match key {
        Ok(key) => key.map(|(key, _)| key),
        Err(error) => return Ok(super::usage(format!("--key: {error}"))),
    };
    let filter = Filter {
        state: arguments.state.map(StateName::from),
        abandoned: arguments.abandoned,
        scope_part: arguments.scope,
        key,
        rows: arguments.limit.into(),
        ..Filter::default()
    };
    let (records, now) = (desk.list(&filter).await?, desk::now());
    if arguments.json {
        let records: Vec<_> = records.iter().map(|record| json::of_record(record, now)).collect();
        crate::print(&format!("{:#}\n", json!(records)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if records.is_empty() {
        eprintln!("no records");
        return Ok(ExitCode::SUCCESS);
    }
    crate::print(&table::of_records(&records, now))?;
    if records.len() == usize::from(arguments.limit) {
        eprintln!("there may be more: see --limit");
    }
    Ok(ExitCode::SUCCESS)
}

impl From<StateArgument> for StateName {
    fn from(state: StateArgument) -> Self {
        match state {
            StateArgument::InFlight => Self::InFlight,
            StateArgument::Completed => Self::Completed,
            StateArgument::Unknown => Self::Unknown,
        }
    }
}
