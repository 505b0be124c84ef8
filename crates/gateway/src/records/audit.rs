//! `oncegate records audit`.

use std::process::ExitCode;

use serde_json::json;

use super::{desk::Desk, json, table};

/// List what operators did, the latest first
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let entries = desk.audit(arguments.limit.into()).await?;
    if arguments.json {
        let entries: Vec<_> = entries.iter().map(json::of_entry).collect();
        crate::print(&format!("{:#}\n", json!(entries)))?;
    } else if entries.is_empty() {
        eprintln!("no operator has done anything yet");
    } else {
        crate::print(&table::of_audit(&entries))?;
    }
    Ok(ExitCode::SUCCESS)
}
