//! Storms, and what came of them.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process::Gate;
use crate::servers::gunicorn::{GunicornServer, Project};

/// Keys that do not stand for exactly one payment: none, where everything is right.
pub(crate) const KEYS_NOT_PAID_ONCE: &str =
    "SELECT count(*) FROM (SELECT key FROM payments_payment GROUP BY key HAVING count(*) <> 1) AS wrong";

/// How much is stormed.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) keys: u64,
    pub(crate) repeats: u64,
}

/// What `oncegate storm --json` prints, as far as it is looked at here.
#[derive(Deserialize)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    pub(crate) executions: u64,
    pub(crate) totals: Totals,
}

#[derive(Deserialize)]
pub(crate) struct Verdict {
    pub(crate) judgement: String,
    pub(crate) line: String,
}

#[derive(Deserialize)]
pub(crate) struct Totals {
    pub(crate) status_2xx: u64,
    pub(crate) replayed: u64,
    pub(crate) undecided: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
}

// === impl Size ===

impl Size {
    /// The size for every change; the full one when the environment asks for it.
    pub(crate) fn of(keys: u64, repeats: u64) -> Self {
        match env::var("ONCEGATE_STORM_FULL") {
            Ok(full) if full == "1" => Self { keys: 100, repeats: 300 },
            _ => Self { keys, repeats },
        }
    }

    pub(crate) fn requests(self) -> u64 {
        self.keys * self.repeats
    }
}

/// The example with its database. Variables bound in this order are dropped in the other: the server before its database.
pub(crate) fn serve_example(variables: &[(&str, &str)]) -> anyhow::Result<(Project, GunicornServer)> {
    let project = Project::prepare()?;
    let server = project.serve(variables)?;
    Ok((project, server))
}

/// The address of a path, through the gate.
pub(crate) fn through(gate: &Gate, path: &str) -> String {
    format!("http://{}{path}", gate.address)
}

/// Storms `url` and counts the payments at the backend itself.
pub(crate) fn storm(backend: &GunicornServer, url: &str, size: Size, options: &[&str]) -> anyhow::Result<Report> {
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
