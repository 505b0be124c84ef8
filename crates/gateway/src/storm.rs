//! `oncegate storm`: race-tests any HTTP API.
//!
//! For each of many fresh keys, repeats of one request start at the same instant; then the effects are counted. The flow,
//! one file per step:
//!
//! plan → endpoint, template (what is sent) → lane → burst → connection, held (how) → count → tally → verdict → report
//!
//! `docs/storm.md` explains the table, the rules of judgement and the exit codes to users.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use http::{HeaderName, Method};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

mod burst;
mod connection;
mod count;
mod endpoint;
mod held;
mod lane;
mod latency;
mod open_files;
mod plan;
mod report;
mod tally;
mod template;
mod verdict;

use endpoint::Endpoint;
use lane::{Lane, Storm, Stormed};
use plan::Plan;
use report::Report;
use template::HeaderTemplate;

/// Exit code when nothing could be judged: wrong usage, no connection, no count.
const EXIT_NO_VERDICT: u8 = 2;

/// Race-test any HTTP API: send repeats of one request at the same instant and count what they did.
///
/// In the body, in header values and in the path of the addresses, {key} is replaced by the key, and n, likewise in
/// braces, by its number.
/// Exit code 0: each key executed once; 1: some did not; 2: it could not be judged.
// The help cannot show the placeholder of the number as it is written, since clap makes a line break of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Address to send to (plain http)
    #[arg(long, value_name = "URL")]
    url: Endpoint,

    /// Method to send
    #[arg(long, default_value = "POST", value_parser = plan::method)]
    method: Method,

    /// Header to send, as 'Name: value'; may be repeated
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<HeaderTemplate>,

    /// Body to send: text, or @FILE for what the file holds; JSON gets its Content-Type unless --header gives one
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<BodySource>,

    /// How many fresh keys to storm
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: u32,

    /// How many repeats of one key start at the same instant
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    concurrency: u32,

    /// How many keys are stormed at a time, each with its own repeats
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parallel_keys: u32,

    /// Header that carries the key
    #[arg(long, value_name = "NAME", default_value = "Idempotency-Key", value_parser = plan::header_name)]
    key_header: HeaderName,

    /// Half of the repeats hang up after this many milliseconds (or a duration such as 2s)
    #[arg(long, value_name = "MS", value_parser = plan::milliseconds)]
    abort_after: Option<Duration>,

    /// Send repeats again that got 409, 425, 429, 503 or no answer, as Retry-After says, for up to --timeout
    #[arg(long)]
    retry: bool,

    /// Address that answers GET with JSON that holds the number of effects; read before and after each key
    #[arg(long, value_name = "URL")]
    count_url: Option<Endpoint>,

    /// Where the number is in that JSON: a JSON pointer to a number, or to an array whose members are counted
    #[arg(long, value_name = "POINTER", default_value = "/count", requires = "count_url", value_parser = plan::pointer)]
    count_pointer: String,

    /// Header to send to the count's address, as 'Name: value'; may be repeated
    #[arg(long = "count-header", value_name = "HEADER", requires = "count_url")]
    count_headers: Vec<HeaderTemplate>,

    /// How long the count must stand still after a repeat that got no answer, since it may still execute
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = plan::duration)]
    settle: Duration,

    /// Longest wait for one answer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = plan::duration)]
    timeout: Duration,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Where the body comes from.
#[derive(Clone, Debug)]
enum BodySource {
    Text(String),
    File(PathBuf),
}

/// Storms the API and prints what came of it.
///
/// The exit code is the judgement: 0 each key executed once, 1 some did not, 2 nothing could be judged, which includes
/// every error; its text goes to standard error.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let is_json = arguments.json;
    let judged = storm(arguments).await.and_then(|report| {
        report.print(is_json).context("cannot write the report")?;
        Ok(report.exit_code())
    });
    Ok(ExitCode::from(judged.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        EXIT_NO_VERDICT
    })))
}

async fn storm(arguments: Arguments) -> anyhow::Result<Report> {
    let plan = Plan::check(arguments)?;
    open_files::allow(&plan)?;
    let storm = Arc::new(Storm::prepare(plan).await?);
    let progress = progress_bar(storm.plan.keys);
    let started = Instant::now();

    let (mut lanes, mut results) = start_lanes(&storm);
    let mut report = Report::new(&storm.plan, storm.is_counted());
    while let Some(result) = results.recv().await {
        match result {
            Ok(stormed) => report.add(&stormed),
            Err(reason) => {
                report.stop(format!("{reason:#}"));
                lanes.shutdown().await;
                break;
            }
        }
        progress.inc(1);
    }
    // Passes a panic on, which would otherwise look like fewer keys.
    lanes.join_all().await;
    progress.finish_and_clear();
    report.finish(started.elapsed());
    Ok(report)
}

/// Starts the lanes, which share the keys out among themselves and end when none is left. Dropping the set ends them at
/// once.
fn start_lanes(storm: &Arc<Storm>) -> (JoinSet<()>, mpsc::Receiver<anyhow::Result<Stormed>>) {
    let (sender, receiver) = mpsc::channel(1);
    let next = Arc::new(AtomicU32::new(1));
    let mut lanes = JoinSet::new();
    for _ in 0..storm.plan.parallel_keys {
        let (mut lane, next, sender) = (Lane::new(storm), next.clone(), sender.clone());
        lanes.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > lane.keys() || sender.send(lane.storm_key(number).await).await.is_err() {
                    return;
                }
            }
        });
    }
    (lanes, receiver)
}

/// A bar on standard error, drawn only when that is a terminal.
fn progress_bar(keys: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} keys, {eta} to go").expect("the template is valid");
    ProgressBar::with_draw_target(Some(u64::from(keys)), ProgressDrawTarget::stderr()).with_style(style)
}

// === impl BodySource ===

impl From<&str> for BodySource {
    fn from(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(file) => Self::File(PathBuf::from(file)),
            None => Self::Text(text.to_owned()),
        }
    }
}
