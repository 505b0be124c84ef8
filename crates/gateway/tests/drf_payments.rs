//! A real backend: Django REST Framework behind Gunicorn with its payments in PostgreSQL, stormed directly and through
//! the gate.
//!
//! `ONCEGATE_STORM_FULL=1` storms with 100 keys x 300 repeats instead of the few that every change can wait for.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

mod servers {
    pub(crate) mod gate;
    pub(crate) mod gunicorn;
    #[allow(dead_code, reason = "other tests use all of it")]
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod python;
}

use servers::gate::GateServer;
use servers::gunicorn::{GunicornServer, Project};

/// The addresses that create a payment, one per form.
const WITHOUT_IDEMPOTENCY: &str = "/api/payments";
const NAIVE: &str = "/api/naive/payments";
const GET_OR_CREATE: &str = "/api/get-or-create/payments";

/// Keys that do not stand for exactly one payment: none, where everything is right.
const KEYS_NOT_PAID_ONCE: &str =
    "SELECT count(*) FROM (SELECT key FROM payments_payment GROUP BY key HAVING count(*) <> 1) AS wrong";

#[test]
fn the_example_passes_its_own_tests() -> anyhow::Result<()> {
    Project::prepare()?.manage("test").map(drop)
}

#[test]
fn without_idempotency_every_repeat_is_a_payment() -> anyhow::Result<()> {
    let (_project, backend) = serve_example()?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(WITHOUT_IDEMPOTENCY), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert_eq!(report.executions, size.requests());
    assert_eq!(report.totals.statuses, BTreeMap::from([(201, size.requests())]));
    Ok(())
}

#[test]
fn check_then_act_pays_again_and_answers_500() -> anyhow::Result<()> {
    let (_project, backend) = serve_example()?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(NAIVE), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert!(report.executions > size.keys, "several racers pass the check");
    let losers = report.executions - size.keys;
    let others = size.requests() - losers;
    let expected = BTreeMap::from([(201, others), (500, losers)]);
    assert_eq!(report.totals.statuses, expected, "of those that paid, all but one lose the unique index");
    Ok(())
}

#[test]
fn get_or_create_pays_again_and_tells_nobody() -> anyhow::Result<()> {
    let (_project, backend) = serve_example()?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(GET_OR_CREATE), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert!(report.executions > size.keys, "a record whose creator is at work looks like that of a dead one");
    assert_eq!(report.totals.statuses, BTreeMap::from([(201, size.requests())]));
    Ok(())
}

#[test]
fn no_form_is_guilty_behind_the_gate() -> anyhow::Result<()> {
    let (project, backend) = serve_example()?;
    let gate = GateServer::start(&backend.url(""))?;
    let size = Size::of(20, 50);

    for form in [WITHOUT_IDEMPOTENCY, NAIVE, GET_OR_CREATE] {
        let report = storm(&backend, &gate.url(form), size, &[])?;
        assert_eq!(report.verdict.judgement, "innocent", "{form}: {}", report.verdict.line);
        assert_eq!(report.executions, size.keys, "{form}: each key is one payment");
        let statuses = &report.totals.statuses;
        assert!(statuses.keys().all(|status| [201, 409].contains(status)), "{form}: {statuses:?}");
        assert_eq!(statuses.values().sum::<u64>(), size.requests(), "{form}: every repeat is answered: {statuses:?}");
    }
    assert_eq!(project.query("SELECT count(*) FROM payments_payment")?, (3 * size.keys).to_string());
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    Ok(())
}

#[test]
fn behind_the_gate_repeats_that_come_back_get_the_first_answer() -> anyhow::Result<()> {
    let (project, backend) = serve_example()?;
    let gate = GateServer::start(&backend.url(""))?;
    let size = Size::of(4, 50);

    let report = storm(&backend, &gate.url(WITHOUT_IDEMPOTENCY), size, &["--retry", "--parallel-keys", "4"])?;
    // A replay that differs from the first answer would be a fault of its own.
    assert_eq!(report.verdict.judgement, "innocent", "{}", report.verdict.line);
    assert_eq!(report.totals.undecided, 0, "every repeat is answered in the end");
    assert_eq!(report.totals.status_2xx, size.keys, "one first answer for each key");
    assert_eq!(report.totals.replayed, size.requests() - size.keys, "all others are replays of it");
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    Ok(())
}

/// How much is stormed.
#[derive(Clone, Copy)]
struct Size {
    keys: u64,
    repeats: u64,
}

/// What `oncegate storm --json` prints, as far as it is looked at here.
#[derive(Deserialize)]
struct Report {
    verdict: Verdict,
    executions: u64,
    totals: Totals,
}

#[derive(Deserialize)]
struct Verdict {
    judgement: String,
    line: String,
}

#[derive(Deserialize)]
struct Totals {
    status_2xx: u64,
    replayed: u64,
    undecided: u64,
    statuses: BTreeMap<u16, u64>,
}

// === impl Size ===

impl Size {
    /// The size for every change; the full one when the environment asks for it.
    fn of(keys: u64, repeats: u64) -> Self {
        match env::var("ONCEGATE_STORM_FULL") {
            Ok(full) if full == "1" => Self { keys: 100, repeats: 300 },
            _ => Self { keys, repeats },
        }
    }

    fn requests(self) -> u64 {
        self.keys * self.repeats
    }
}

/// The example with its database. Variables bound in this order are dropped in the other: the server before its database.
fn serve_example() -> anyhow::Result<(Project, GunicornServer)> {
    let project = Project::prepare()?;
    let server = project.serve()?;
    Ok((project, server))
}

/// Storms `url` and counts the payments at the backend itself.
fn storm(backend: &GunicornServer, url: &str, size: Size, options: &[&str]) -> anyhow::Result<Report> {
    let mut storm = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    storm
        .args(["storm", "--json", "--url", url])
        .args(["--keys", &size.keys.to_string(), "--concurrency", &size.repeats.to_string()])
        .args(["--header", "Content-Type: application/json"])
        .args(["--body", r#"{"amount": "12.50", "currency": "EUR"}"#])
        .args(["--count-url", &backend.url("/count?key={key}"), "--count-pointer", "/count"])
        .args(options);
    let output = storm.output().with_context(|| format!("cannot start {storm:?}"))?;
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{storm:?} ended with {} and said:\n{}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    // Shown when the test fails, or with --nocapture.
    eprintln!("{url}: {} payments; {} {:?}", report.executions, report.verdict.line, report.totals.statuses);
    let expected = match report.verdict.judgement.as_str() {
        "innocent" => 0,
        "guilty" => 1,
        judgement => bail!("{storm:?} came to {judgement:?}: {}", report.verdict.line),
    };
    assert_eq!(output.status.code(), Some(expected), "the exit code is the judgement");
    Ok(report)
}
