//! `oncegate lab` on real databases: every naive program fails in its own way, and nothing of oncegate does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{path::Path, process::Command};

use serde_json::Value;

#[allow(dead_code, reason = "other tests use more of it")]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
}

use servers::postgres::PostgresServer;

fn lab(arguments: &[&str]) -> Value {
    let mut oncegate = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    oncegate.args(["lab", "--json"]).args(arguments);
    // Its clients give up after so many tries, which must not be because of a busy disk.
    if Path::new("/dev/shm").is_dir() {
        oncegate.env("TMPDIR", "/dev/shm");
    }
    let output = oncegate.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sum of a column over the rows of one program under one fault.
fn sum(report: &Value, implementation: &str, fault: &str, column: &str) -> u64 {
    let rows = report["rows"].as_array().unwrap();
    let of_it: Vec<_> =
        rows.iter().filter(|row| row["implementation"] == implementation && row["fault"] == fault).collect();
    assert!(!of_it.is_empty(), "{implementation} under {fault} is missing in {report}");
    of_it.iter().map(|row| row[column].as_u64().unwrap()).sum()
}

/// What each program is there to show.
fn each_fails_in_its_own_way(report: &Value, failures: &[(&str, &str, &str)]) {
    for (implementation, fault, column) in failures {
        assert!(sum(report, implementation, fault, column) > 0, "{implementation} has no {column}: {report}");
    }
}

fn every_row_of_ours_keeps_its_promise(report: &Value, programs: usize) {
    let ours: Vec<_> = report["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "oncegate").collect();
    let names: std::collections::BTreeSet<_> = ours.iter().map(|row| row["implementation"].as_str().unwrap()).collect();
    assert_eq!(names.len(), programs, "{names:?}");
    for row in ours {
        assert_eq!((&row["executed"], row["duplicates"].as_u64()), (&row["keys"], Some(0)), "{row}");
        assert_eq!(row["false_successes"], 0, "{row}");
        assert!(row["answered"].as_u64().unwrap() * 100 >= row["clients"].as_u64().unwrap() * 95, "{row}");
    }
}

#[test]
fn on_postgresql_each_program_breaks_and_ours_does_not() {
    let server = PostgresServer::start().unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    let address = format!("postgres://{user}:{password}@127.0.0.1:{port}/postgres");
    let report = lab(&["--postgres", &address, "--concurrency", "1,20", "--html", page.to_str().unwrap()]);

    assert!(report["database"].as_str().unwrap().starts_with("PostgreSQL"), "{report}");
    each_fails_in_its_own_way(
        &report,
        &[
            ("check, then act", "none", "duplicates"),
            ("get_or_create", "none", "duplicates"),
            ("SELECT … FOR UPDATE", "none", "duplicates"),
            ("unique index alone", "none", "errors"),
            ("no in-progress state", "crash_before_effect", "false_successes"),
            ("key and effect apart", "crash_after_effect", "false_successes"),
            ("in progress for ever", "crash_before_effect", "stuck"),
            ("state and TTL, no fence", "pause", "duplicates"),
            ("SET NX alone", "cache_restart", "duplicates"),
        ],
    );
    every_row_of_ours_keeps_its_promise(&report, 3);
    // One client alone that meets no fault: nothing is wrong with any program, as in every test of its authors'.
    for row in report["rows"].as_array().unwrap().iter().filter(|row| row["concurrency"] == 1) {
        assert_eq!((&row["executed"], &row["errors"]), (&row["keys"], &Value::from(0)), "{row}");
    }

    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<figure").count(), 12, "a chart for each program");
    assert!(!page.contains("{{") && !page.contains("src=") && !page.contains("href="), "everything is in it");
    let left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'oncegate_lab%'";
    assert_eq!(server.execute("postgres", left).unwrap(), "0", "nothing is left behind");
}

#[test]
fn without_postgresql_it_runs_on_sqlite() {
    let report = lab(&["--sqlite", "--concurrency", "20"]);
    assert_eq!(report["database"], "SQLite");
    each_fails_in_its_own_way(
        &report,
        &[
            ("check, then act", "none", "duplicates"),
            ("no in-progress state", "crash_before_effect", "false_successes"),
            ("in progress for ever", "crash_before_effect", "stuck"),
            ("state and TTL, no fence", "pause", "duplicates"),
        ],
    );
    every_row_of_ours_keeps_its_promise(&report, 1);
}

#[test]
fn an_address_that_is_no_postgresql_is_refused() {
    let mut oncegate = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    let output = oncegate.args(["lab", "--postgres", "sqlite://x.db"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("postgres://"), "{said}");
}
