//! `oncegate check`.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    backend::Backend,
    process::{Gate, run, text},
};

#[test]
fn all_is_well_when_the_service_answers_and_a_store_can_be_made() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let output = run(directory.path(), &["check", "--upstream", &backend.url(), "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["checks"][0]["found"], "accepts connections");
    assert_eq!(report["checks"][1]["found"], "does not exist yet; serve makes it");
    assert_eq!(report["routes"][0]["backend"], "plain");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn a_table_shows_what_would_be_guarded() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let route = r#"[{ name = "pay", match = "POST /payments", on_abandoned = "takeover" }]"#;
    let arguments = ["check", "--upstream", &backend.url()];
    let output = run(directory.path(), &arguments, &[("ONCEGATE__ROUTE", route)]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.lines().any(|line| line.trim_start().starts_with("pay       POST /payments   POST")), "{printed}");
    assert!(printed.contains("warning: route pay: on_abandoned"), "{printed}");
}

#[test]
fn a_transactional_backend_is_told_where_it_can_complete_nothing() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let transactional = [("ONCEGATE__DEFAULTS__BACKEND", "transactional")];
    let output = run(directory.path(), &["check", "--upstream", &backend.url()], &transactional);
    let printed = text(&output.stdout);
    assert!(printed.contains("warning: route defaults: a transactional backend completes its records"), "{printed}");
    assert!(!printed.contains("note: "), "nothing is promised that could be missed: {printed}");
    assert_eq!(output.status.code(), Some(0), "it is allowed");
}

#[test]
fn a_service_that_does_not_listen_fails_it() {
    let directory = tempfile::tempdir().unwrap();
    // Nothing can listen on port 1 here: it would need privileges, and no service has it.
    let output = run(directory.path(), &["check", "--upstream", "http://127.0.0.1:1"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("FAILED"), "{}", text(&output.stdout));
}

#[test]
fn a_file_that_is_no_store_fails_it_and_stays_as_it_is() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let file = directory.path().join("oncegate.db");
    fs::write(&file, "a diary").unwrap();
    let output = run(directory.path(), &["check", "--upstream", &backend.url()], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("oncegate.db is not an SQLite database"), "{}", text(&output.stdout));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a diary");
}

#[test]
fn a_file_with_an_older_schema_is_said_to_have_one_and_stays_as_it_is() {
    let backend = Backend::prompt();
    let gate = Gate::start(&backend.url());
    gate.signal(Signal::TERM);
    let (_, directory) = gate.wait();
    let file = directory.path().join("oncegate.db");
    let mut bytes = fs::read(&file).unwrap();
    // The last byte of `user_version` (SQLite file format, section 1.3).
    bytes[63] -= 1;
    fs::write(&file, &bytes).unwrap();
    let output = run(directory.path(), &["check", "--upstream", &backend.url(), "--json"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["checks"][1]["found"], "its schema lacks 1 migrations; serve applies them", "{report}");
    assert_eq!((output.status.code(), fs::read(&file).unwrap() == bytes), (Some(0), true));
}

#[test]
fn a_directory_that_is_missing_fails_it() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let arguments = ["check", "--upstream", &backend.url(), "--store", "sqlite://nowhere/x.db"];
    let output = run(directory.path(), &arguments, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("nowhere is not a directory"), "{}", text(&output.stdout));
}

#[test]
fn faults_of_the_configuration_fail_it() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["check", "--upstream", "https://u", "--json"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert!(report["faults"][0].as_str().unwrap().starts_with("--upstream: "), "{report}");
}
