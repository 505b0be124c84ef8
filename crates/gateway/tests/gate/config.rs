//! How the binary takes its configuration.

use std::{fs, process::Output};

use tempfile::TempDir;

use crate::process::{run, text};

fn directory(configuration: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("gate.toml"), configuration).unwrap();
    directory
}

fn print(configuration: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let directory = directory(configuration);
    let fixed = ["serve", "--print-config", "--config", "gate.toml"];
    run(directory.path(), &[&fixed, arguments].concat(), variables)
}

fn line<'a>(printed: &'a str, key: &str) -> &'a str {
    printed.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key} in\n{printed}"))
}

#[test]
fn a_faulty_file_is_refused_with_file_line_and_column() {
    let output = print("upstream = \"http://u\"\n[defaults]\nleese = \"1s\"\nwait = \"soon\"\n", &[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let faults = text(&output.stderr);
    let faults: Vec<_> = faults.lines().collect();
    assert_eq!(faults[0], "gate.toml:3:1: [defaults] unknown key \"leese\": did you mean \"lease\"?");
    assert!(faults[1].starts_with("gate.toml:4:8: wait: \"soon\" is not a duration"), "{faults:?}");
    assert_eq!(faults.len(), 2);
}

#[test]
fn a_faulty_variable_or_flag_is_named() {
    let variables = [("ONCEGATE__DEFAULTS__LEASE", "soon"), ("ONCEGATE__STOER__URL", "x")];
    let output = print("upstream = \"http://u\"\n", &["--listen", "localhost"], &variables);
    assert_eq!(output.status.code(), Some(2));
    let faults = text(&output.stderr);
    let faults: Vec<_> = faults.lines().collect();
    assert!(faults[0].starts_with("environment variable ONCEGATE__DEFAULTS__LEASE: \"soon\" is not"), "{faults:?}");
    assert!(faults[1].ends_with("ONCEGATE__STOER__URL: no such setting: did you mean ONCEGATE__STORE__URL?"));
    assert!(faults[2].starts_with("--listen: \"localhost\" is not an address"), "{faults:?}");
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let file = "upstream = \"http://file\"\nlisten = \"127.0.0.1:1\"\n[store]\nurl = \"sqlite://file.db\"\n";
    let variables = [("ONCEGATE__LISTEN", "127.0.0.1:2"), ("ONCEGATE__STORE__URL", "sqlite://variable.db")];
    let output = print(file, &["--store", "sqlite://flag.db"], &variables);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(line(&printed, "upstream = \"http://file\"").ends_with("# gate.toml:1:12"));
    assert!(line(&printed, "listen = \"127.0.0.1:2\"").ends_with("# ONCEGATE__LISTEN"));
    assert!(line(&printed, "url = \"sqlite://flag.db\"").ends_with("# --store"));
    assert!(line(&printed, "lease = \"30s\"").ends_with("# default"));
}

#[test]
fn secrets_are_printed_masked() {
    let file = "upstream = \"http://u\"\n[[secrets]]\nid = \"a\"\nvalue = \"hunter2 hunter2 hunter2\"\n";
    let token = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let output = print(file, &[], &[("ONCEGATE__ADMIN__TOKEN", token)]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(line(&printed, "token = \"********\"").ends_with("# ONCEGATE__ADMIN__TOKEN"));
    assert!(line(&printed, "value = \"********\"").ends_with("# gate.toml:4:9"));
    assert!(!printed.contains("hunter2") && !text(&output.stderr).contains("hunter2"));
}

#[test]
fn a_missing_file_or_upstream_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["serve", "--config", "none.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("--config: none.toml cannot be read"), "{}", text(&output.stderr));
    let output = run(directory.path(), &["serve"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--upstream http://127.0.0.1:8000"), "{}", text(&output.stderr));
    let output = run(directory.path(), &["serve"], &[("ONCEGATE_CONFIG", "none.toml")]);
    assert!(text(&output.stderr).contains("none.toml cannot be read"), "{}", text(&output.stderr));
}
