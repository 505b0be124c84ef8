//! `oncegate bench store` on real stores. What it measures here says nothing: only that it measures, counts and tidies up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;

#[allow(dead_code, reason = "other tests use more of it")]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
}

use servers::postgres::PostgresServer;

/// As little as there is.
const SHORT: [&str; 6] = ["--callers", "8", "--seconds", "1", "--rounds", "1"];

fn bench(arguments: &[&str]) -> Output {
    let mut oncegate = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    oncegate.args(["bench", "store"]).args(SHORT).args(arguments);
    let output = oncegate.output().unwrap();
    // A second in which the machine stood still is no measurement.
    let said = words(&output) + &String::from_utf8_lossy(&output.stdout);
    let stood_still = ["no cycle ended in time", "the front is left alone for a moment"];
    if stood_still.iter().any(|words| said.contains(words)) { oncegate.output().unwrap() } else { output }
}

/// What it printed, after it ended with success.
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether the servers' CPU time was counted. The kernel does so in ticks, and a short row may lie between two.
fn has_server_cpu(report: &Value) -> bool {
    let rows = report["rows"].as_array().unwrap();
    let micros: Vec<_> = rows.iter().map(|row| row["server_cpu_micros_per_cycle"].as_f64().unwrap()).collect();
    micros.iter().any(|micros| *micros > 0.0)
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_store_is_compared_with_the_plain_recipe_and_leaves_nothing_behind() {
    let server = PostgresServer::start_durable().unwrap();
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let output = bench(&["--json", "--store", &format!("postgres://{user}:{password}@127.0.0.1:{port}/shop")]);
    let report = report(&output);
    for figure in ["cycles_per_second", "plain_cycles_per_second", "ratio", "lone_ratio"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} of {report}");
    }
    assert_eq!(report["plain_256_cycles_per_second"], Value::Null, "a server as it comes has no room for so many");
    assert!(report["notes"][0].as_str().unwrap().contains("raise max_connections"), "{report}");
    assert_eq!(report["settings"]["fsync"], "on");
    assert_eq!(report["faults"], Value::Array(Vec::new()));
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["cycles"], row["rows_counted"], "{row}");
    }
    assert!(has_server_cpu(&report), "{report}");
    let ours = report["rows"].as_array().unwrap().last().unwrap();
    assert!(ours["verbs_per_commit"].as_f64().unwrap() > 1.0, "eight callers share commits: {ours}");
    let left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'oncegate_bench%'";
    assert_eq!(server.execute("shop", left).unwrap(), "0");
    let schema = "SELECT count(*) FROM pg_namespace WHERE nspname = 'oncegate'";
    assert_eq!(server.execute("shop", schema).unwrap(), "0", "the database that was named is not touched");
    assert!(!words(&output).contains(password), "the password is not shown");
}

#[test]
fn without_an_address_it_starts_a_server_and_compares_a_table_that_has_grown() {
    let report = report(&bench(&["--json", "--rows", "2000", "--setting", "wal_compression=on"]));
    assert!(report["ratio"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["large_rows"], 2000.0);
    // A record of a payment has two hundred bytes at the least, and its answer four hundred.
    assert!(report["record_table_bytes"].as_f64().unwrap() > 200.0, "{report}");
    assert!(report["response_table_bytes"].as_f64().unwrap() > 400.0, "{report}");
    assert!(report["wal_bytes_per_cycle"].as_f64().unwrap() > 400.0, "{report}");
    assert_ne!(report["settings"]["wal_compression"], "off");
}

#[test]
fn the_strategies_in_sql_are_compared_with_the_handler_alone() {
    let report = report(&bench(&["--json", "--strategies"]));
    for figure in ["claim_ratio", "enter_ratio"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} of {report}");
    }
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["cycles"], row["rows_counted"], "each request has one effect: {row}");
    }
}

#[test]
fn a_server_that_is_not_durable_is_refused() {
    let output = bench(&["--json", "--setting", "fsync=off"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("fsync is off on this server"), "{}", words(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn sqlite_is_compared_with_one_commit_for_each_verb() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.db");
    let report = report(&bench(&["--json", "--store", &format!("sqlite://{}", file.display())]));
    assert!(report["ratio"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["one_commit_cycles_per_second"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "it works in files of its own and deletes them");
}

#[test]
fn redis_is_compared_with_its_own_benchmark_alone_and_as_a_cluster() {
    for servers in ["single", "cluster"] {
        let report = report(&bench(&["--json", "--redis", servers]));
        for figure in ["cycles_per_second", "claims_per_second", "benchmark_set_per_second", "ratio"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} of {report}");
        }
        for row in report["rows"].as_array().unwrap() {
            assert_eq!(row["cycles"], row["rows_counted"], "{row}");
        }
        assert!(has_server_cpu(&report), "{report}");
    }
}

#[test]
fn an_outbox_is_compared_with_none_and_drained() {
    let report = report(&bench(&["--json", "--outbox"]));
    for figure in ["cycles_per_second", "authoritative_cycles_per_second", "drained_per_second", "ratio"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} of {report}");
    }
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["cycles"], row["rows_counted"], "{row}");
    }
}
