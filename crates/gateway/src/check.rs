//! `oncegate check`: tries out what `serve` would use, and serves nothing.

use std::{fmt::Write as _, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use oncegate_core::Backend;
use oncegate_tower::Route;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{
    config::{self, Config, StoreSettings},
    open_store,
    proxy::UpstreamAddress,
    serve::route_table,
    store_address::{Presence, StoreAddress},
};

// === types ===

/// Check the configuration, the service and the store, and print what would be guarded
///
/// Exit code 0: all is well; 1: something is not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: config::Sources,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  oncegate check --config /etc/oncegate.toml
  oncegate check --upstream http://127.0.0.1:8000 --json";

/// One thing that was tried.
#[derive(Debug)]
struct Finding {
    what: &'static str,
    target: String,
    /// What was found, or why it cannot be used.
    found: Result<String, String>,
}

/// How long the service may take to accept a connection, as `serve` has it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Long enough for a look at the schema of a distant database.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(10);

// === the command ===

/// Checks and prints. An error is returned only when standard output cannot be written.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = match config::load(&arguments.config, std::env::vars_os()) {
        Ok(config) => config,
        Err(faults) => {
            eprintln!("{faults}");
            if arguments.json {
                let faults: Vec<_> = faults.to_string().lines().map(str::to_owned).collect();
                crate::print(&format!("{}\n", json!({ "ok": false, "faults": faults })))?;
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let findings = [of_upstream(&config.upstream).await, of_store(&config.store).await];
    let is_well = findings.iter().all(|finding| finding.found.is_ok());
    let text = if arguments.json { as_json(&config, &findings) } else { as_tables(&config, &findings) };
    crate::print(&text)?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

// === trying ===

async fn of_upstream(upstream: &UpstreamAddress) -> Finding {
    let connecting = TcpStream::connect((upstream.host(), upstream.port()));
    let found = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(_)) => Ok("accepts connections".to_owned()),
        Ok(Err(error)) => Err(format!("cannot be connected to: {error}")),
        Err(_) => Err(format!("does not accept a connection within {CONNECT_TIMEOUT:?}")),
    };
    Finding { what: "upstream", target: upstream.to_string(), found }
}

async fn of_store(store: &StoreSettings) -> Finding {
    let found = look_into(store).await.map_err(|error| format!("{error:#}"));
    Finding { what: "store", target: store.address.to_string(), found }
}

/// Opens a store that is there; one that is not is not made.
async fn look_into(store: &StoreSettings) -> anyhow::Result<String> {
    let behind = tokio::time::timeout(SCHEMA_TIMEOUT, store.address.behind()).await;
    match behind.with_context(|| format!("no answer within {SCHEMA_TIMEOUT:?}"))?? {
        0 => {}
        behind if store.migrate => return Ok(format!("its schema lacks {behind} migrations; serve applies them")),
        behind => anyhow::bail!("its schema lacks {behind} migrations: run `oncegate migrate`"),
    }
    let servers = tokio::time::timeout(SCHEMA_TIMEOUT, store.address.servers(&store.redis)).await;
    let servers = servers.with_context(|| format!("no answer within {SCHEMA_TIMEOUT:?}"))??;
    let front = tokio::time::timeout(SCHEMA_TIMEOUT, open_store::describe_front(store)).await;
    let front = front.with_context(|| format!("no answer within {SCHEMA_TIMEOUT:?}"))??;
    let (address, timeout, redis) = (store.address.clone(), store.timeout, store.redis.clone());
    let looking = tokio::task::spawn_blocking(move || match address.presence()? {
        Presence::There => address.open(timeout, &redis).map(Some),
        Presence::WillBeMade => Ok(None),
    });
    let Some(opened) = looking.await.context("opening the store failed")?? else {
        return Ok("does not exist yet; serve makes it".to_owned());
    };
    let census = tokio::time::timeout(timeout, opened.census()).await;
    let census = census.with_context(|| format!("no answer within {timeout:?}"))??;
    let counts = format!(
        "{} completed, {} in flight, {} abandoned, {} unknown",
        census.completed, census.in_flight, census.abandoned, census.unknown
    );
    let servers = servers.iter().map(ToString::to_string);
    let lines: Vec<_> = std::iter::once(counts).chain(servers).chain(front).collect();
    Ok(lines.join("; "))
}

// === printing ===

fn as_tables(config: &Config, findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for Finding { what, target, found } in findings {
        let (verdict, text) = match found {
            Ok(text) => ("ok", text),
            Err(text) => ("FAILED", text),
        };
        table.add_row([what, &**target, verdict, text]);
    }
    let mut text = format!("{}\n\n{}\n", table.trim_fmt(), route_table::of(&config.routes).trim_fmt());
    for warning in &config.warnings {
        write!(text, "\nwarning: {warning}\n").expect("writing to a string cannot fail");
    }
    for note in notes(config) {
        write!(text, "\nnote: {note}\n").expect("writing to a string cannot fail");
    }
    text
}

/// What only the running gate can find out, and where it says so.
fn notes(config: &Config) -> Vec<String> {
    let is_possible = matches!(config.store.address, StoreAddress::Postgres(_));
    let is_promised = |route: &Route| is_possible && route.policy.backend == Backend::Transactional;
    let routes = config.routes.iter().map(|(_, route)| route).filter(|route| is_promised(route));
    let note = |route: &Arc<Route>| {
        format!(
            "route {}: its backend must complete each record in the transaction of the effect; successes for which it \
             did not are counted by oncegate_uncooperative_responses_total in /metrics, and for them nothing is promised",
            route.name
        )
    };
    routes.map(note).collect()
}

fn as_json(config: &Config, findings: &[Finding]) -> String {
    let finding = |Finding { what, target, found }: &Finding| {
        let text = found.as_ref().unwrap_or_else(|error| error);
        json!({ "what": what, "target": target, "ok": found.is_ok(), "found": text })
    };
    let routes: Vec<_> = config.routes.iter().map(|(matcher, route)| route_table::json(matcher, route)).collect();
    let findings: Vec<Value> = findings.iter().map(finding).collect();
    let is_well = findings.iter().all(|finding| finding["ok"] == true);
    let report = json!({ "ok": is_well, "checks": findings, "routes": routes, "warnings": config.warnings,
                         "notes": notes(config) });
    format!("{report:#}\n")
}
