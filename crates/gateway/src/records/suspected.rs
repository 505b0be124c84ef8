//! `oncegate records suspected`.

use std::process::ExitCode;

use serde_json::json;

use super::{desk::Desk, json, table};

/// List requests of one caller that were executed under two keys, the latest first
///
/// A gate notes them while it serves: a client that makes a new key for each repeat is guarded against nothing.
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
    let suspected = desk.suspected(arguments.limit.into()).await?;
    if arguments.json {
        let suspected: Vec<_> = suspected.iter().map(json::of_suspicion).collect();
        crate::print(&format!("{:#}\n", json!(suspected)))?;
    } else if suspected.is_empty() {
        eprintln!("no request was seen under two keys");
    } else {
        crate::print(&table::of_suspicions(&suspected))?;
    }
    Ok(ExitCode::SUCCESS)
}
