//! `oncegate records resolve|release|purge`.

use std::{fs::File, io::Read as _, process::ExitCode};

use anyhow::Context as _;
use bytes::Bytes;
use oncegate_core::{Fence, Note, OperatorVerb, Record, Seen, StoredResponse};
use oncegate_store::redis;

use super::{
    desk::{self, Desk, Ruled, Ruling},
    name,
    response::{self, BODY_BYTES_MAX, ResponseError},
    table, usage,
};
use crate::{config::StoreSources, store_address::StoreAddress};

// === types ===

/// What all three say.
#[derive(Debug, clap::Args)]
struct Order {
    /// The record's UUID, or its first 8 or more digits
    record: String,

    /// The record's fence as you saw it; without it the record is shown and nothing is changed
    #[arg(long, value_name = "N", requires = "reason")]
    fence: Option<i64>,

    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Who does it, for the audit
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    operator: Option<String>,
}

/// Complete a record in flight or unknown: repeats get the response that you give
#[derive(Debug, clap::Args)]
pub(super) struct Resolve {
    #[command(flatten)]
    order: Order,

    /// The status that repeats get
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,

    /// A header that repeats get; may be given more than once
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// The body that repeats get, or @FILE; without it the body is empty
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,
}

/// Delete a record in flight or unknown: a repeat executes
#[derive(Debug, clap::Args)]
pub(super) struct Release {
    #[command(flatten)]
    order: Order,

    /// Also under a live lease: its executor may still be at work, and a repeat executes beside it
    #[arg(long)]
    force: bool,
}

/// Delete a completed record: a repeat executes
#[derive(Debug, clap::Args)]
pub(super) struct Purge {
    #[command(flatten)]
    order: Order,
}

// === the commands ===

pub(super) async fn resolve(desk: &Desk, sources: &StoreSources, arguments: Resolve) -> anyhow::Result<ExitCode> {
    let Some(status) = arguments.status else {
        if arguments.order.fence.is_some() {
            return Ok(usage("--status: say which status repeats are to get"));
        }
        return rule(desk, sources, (OperatorVerb::Resolve, None), arguments.order, false).await;
    };
    let body = body(arguments.body.as_deref())?;
    let response = match response_of(status, &arguments.header, body) {
        Ok(response) => response,
        Err(error) => return Ok(usage(error)),
    };
    let ruling = Some(Ruling::Resolve(response));
    rule(desk, sources, (OperatorVerb::Resolve, ruling), arguments.order, false).await
}

pub(super) async fn release(desk: &Desk, sources: &StoreSources, arguments: Release) -> anyhow::Result<ExitCode> {
    let Release { order, force } = arguments;
    rule(desk, sources, (OperatorVerb::Release, Some(Ruling::Release)), order, force).await
}

pub(super) async fn purge(desk: &Desk, sources: &StoreSources, arguments: Purge) -> anyhow::Result<ExitCode> {
    rule(desk, sources, (OperatorVerb::Purge, Some(Ruling::Purge)), arguments.order, false).await
}

async fn rule(
    desk: &Desk,
    sources: &StoreSources,
    (verb, ruling): (OperatorVerb, Option<Ruling>),
    order: Order,
    force: bool,
) -> anyhow::Result<ExitCode> {
    let record = name::by_digits(desk, &order.record).await?;
    let (Some(fence), Some(ruling)) = (order.fence, ruling) else {
        crate::print(&table::of_record(&record, desk::now()))?;
        eprintln!("\nnothing was changed: {}", advice(verb, &record, sources));
        return Ok(ExitCode::FAILURE);
    };
    let note = Note::new(order.operator.as_deref().unwrap_or_default(), order.reason.as_deref().unwrap_or_default());
    let note = match note {
        Ok(note) => note.with_force(force),
        Err(error) => return Ok(usage(format!("--{}: {error}", error.field()))),
    };
    let seen = Seen { fence: Fence::new(fence), ..Seen::of(&record) };
    match desk.rule(seen, &ruling, &note).await? {
        Ruled::Refused(refusal) => anyhow::bail!("nothing was changed: {refusal}"),
        Ruled::Done => {
            let short = record.id.digest().short();
            eprintln!("{}", done(verb, &short));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn done(verb: OperatorVerb, record: &str) -> String {
    match verb {
        OperatorVerb::Resolve => format!("resolved {record}: repeats get your response, everywhere within 5 s"),
        OperatorVerb::Release => format!("released {record}: a repeat executes, everywhere within 5 s"),
        OperatorVerb::Purge => format!("purged {record}: a repeat executes, everywhere within 5 s"),
    }
}

/// The command line that would do it.
fn advice(verb: OperatorVerb, record: &Record, sources: &StoreSources) -> String {
    let state = record.state.name();
    if !verb.leaves(state) {
        return format!("the record is {}, and {} is not for it", state.as_str(), verb.as_str());
    }
    let status = if verb == OperatorVerb::Resolve { " --status 201 --body @FILE" } else { "" };
    let mut line = format!(
        "if this is the record, run\n\n  oncegate records {} {} --fence {}{status} --reason 'WHY'",
        verb.as_str(),
        record.id.digest().short(),
        record.fence
    );
    let (store, front) = (sources.store.as_deref(), sources.front.as_deref());
    for (flag, text, shown) in [
        ("--store", store, store.and_then(|text| text.parse::<StoreAddress>().ok()).map(|address| address.to_string())),
        (
            "--front",
            front,
            front.and_then(|text| text.parse::<redis::Address>().ok()).map(|address| address.to_string()),
        ),
    ] {
        let Some(text) = text else { continue };
        // With a password, or options that are not shown, it is for whoever runs it to repeat.
        line += &format!(" {flag} '{}'", if shown.as_deref() == Some(text) { text } else { "…" });
    }
    if let Some(config) = &sources.config {
        line += &format!(" --config '{}'", config.display());
    }
    line
}

// === the response ===

fn response_of(status: u16, headers: &[String], body: Bytes) -> Result<StoredResponse, ResponseError> {
    let pair = |header: &String| {
        let (name, value) = header.split_once(':').unwrap_or((header, ""));
        (name.trim().to_owned(), value.trim().to_owned())
    };
    let headers: Vec<_> = headers.iter().map(pair).collect();
    response::stored(status, &headers, body)
}

fn body(argument: Option<&str>) -> anyhow::Result<Bytes> {
    let Some(argument) = argument else { return Ok(Bytes::new()) };
    let Some(path) = argument.strip_prefix('@') else { return Ok(Bytes::copy_from_slice(argument.as_bytes())) };
    let mut bytes = Vec::new();
    // One byte more than is allowed is enough to be refused.
    let limit = BODY_BYTES_MAX as u64 + 1;
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.with_context(|| format!("{path} cannot be read"))?;
    Ok(Bytes::from(bytes))
}
