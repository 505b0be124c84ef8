//! `oncegate serve`: starting, guarding and stopping.

use std::{fs, net::TcpListener, thread};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    backend::Backend,
    http::{self, get, pay},
    process::{Gate, run, text},
};

/// Asks until the gate says that it drains.
fn wait_for_drain(gate: &Gate) {
    while get(&gate.admin, "/readyz", "").status() == 200 {
        thread::yield_now();
    }
}

#[test]
fn only_the_upstream_is_needed() {
    let backend = Backend::prompt();
    let gate = Gate::start(&backend.url());
    let (first, repeat) = (pay(&gate.address, "k1"), pay(&gate.address, "k1"));
    assert_eq!((first.status(), &*first.body), (201, "paid"));
    assert_eq!((repeat.status(), &*repeat.body), (201, "paid"));
    assert_eq!((first.field("idempotent-replayed"), repeat.field("idempotent-replayed")), (None, Some("true")));
    assert_eq!(pay(&gate.address, "k2").status(), 201);
    assert_eq!(backend.executions(), 2, "one per key");

    gate.signal(Signal::TERM);
    let (status, directory) = gate.wait();
    assert_eq!(status.code(), Some(0));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["oncegate.db"], "a clean stop leaves the store without its log");
}

#[test]
fn the_start_says_what_is_guarded() {
    let backend = Backend::prompt();
    let route = r#"[{ name = "pay", match = "POST /payments", key = "header:X-Key", scope = ["header:X-Org"] }]"#;
    let variables = [("ONCEGATE__ROUTE", route)];
    let arguments = ["--store", "memory://single-process"];
    let gate = Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &arguments, &variables);
    let seen = gate.seen().join("\n");
    for expected in [
        &*format!("guards {}", backend.url()),
        "store memory://single-process",
        "pay       POST /payments   POST        plain    30s    24h        header:x-key            header:x-org",
        "defaults  everything else  POST PATCH  plain    30s    24h        header:idempotency-key  authorization",
        "warning: the store is the memory of this process",
    ] {
        assert!(seen.contains(expected), "no {expected:?} in\n{seen}");
    }
}

#[test]
fn callers_without_an_identity_are_warned_about_once() {
    let backend = Backend::prompt();
    let mut gate = Gate::start(&backend.url());
    for key in ["k1", "k2", "k3"] {
        pay(&gate.address, key);
    }
    gate.signal(Signal::TERM);
    gate.wait_for("stopped");
    let warned = gate.seen().iter().filter(|line| line.contains("callers without an identity share one scope")).count();
    assert_eq!(warned, 1, "{:#?}", gate.seen());
}

#[test]
fn clients_can_read_the_policy_and_the_meaning_of_problems() {
    let backend = Backend::prompt();
    let gate =
        Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &[], &[("ONCEGATE__DEFAULTS__REQUIRED", "true")]);
    let policy: Value = serde_json::from_str(&get(&gate.address, "/.well-known/idempotency", "").body).unwrap();
    assert_eq!(policy["routes"][0]["required"], true);
    let refused = http::send(&gate.address, "POST", "/payments", "").answer();
    assert_eq!(refused.status(), 400);
    let problem: Value = serde_json::from_str(&refused.body).unwrap();
    let page = get(&gate.address, problem["type"].as_str().unwrap(), "");
    assert_eq!(page.status(), 200);
    assert!(page.body.contains(problem["title"].as_str().unwrap()), "{}", page.body);
    assert_eq!(backend.executions(), 0);
}

#[test]
fn sigterm_lets_a_running_request_end() {
    let backend = Backend::holding();
    let gate = Gate::start(&backend.url());
    let running = http::send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    backend.arrival();
    gate.signal(Signal::TERM);
    wait_for_drain(&gate);
    let draining = get(&gate.admin, "/readyz", "");
    assert_eq!((draining.status(), &*draining.body), (503, "draining\n"));
    assert_eq!(get(&gate.admin, "/healthz", "").status(), 200, "it still lives");

    backend.release();
    assert_eq!(running.answer().status(), 201);
    let (status, directory) = gate.wait();
    assert_eq!(status.code(), Some(0));

    let again = Gate::start_in(directory, &backend.url(), &[], &[]);
    assert_eq!(pay(&again.address, "k1").field("idempotent-replayed"), Some("true"), "its record was stored");
    assert_eq!(backend.executions(), 0);
}

#[test]
fn sigterm_lets_an_execution_end_whose_client_left() {
    let backend = Backend::holding();
    let gate = Gate::start(&backend.url());
    let client = http::send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    // A client that leaves before its request was claimed takes it along.
    backend.arrival();
    drop(client);
    gate.signal(Signal::INT);
    wait_for_drain(&gate);
    backend.release();
    let (status, directory) = gate.wait();
    assert_eq!(status.code(), Some(0));
    let again = Gate::start_in(directory, &backend.url(), &[], &[]);
    assert_eq!(pay(&again.address, "k1").field("idempotent-replayed"), Some("true"));
    assert_eq!(backend.executions(), 0);
}

#[test]
fn a_second_signal_ends_at_once() {
    let backend = Backend::holding();
    let gate = Gate::start(&backend.url());
    let _running = http::send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    backend.arrival();
    gate.signal(Signal::TERM);
    wait_for_drain(&gate);
    gate.signal(Signal::TERM);
    // Nothing was released, so nothing but the signal can have ended it.
    assert_eq!(gate.wait().0.code(), Some(1));
}

#[test]
fn what_does_not_end_in_time_is_cut() {
    let backend = Backend::holding();
    let gate = Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &[], &[("ONCEGATE__DRAIN", "0s")]);
    let _running = http::send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    backend.arrival();
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().0.code(), Some(1));
}

#[test]
fn a_log_in_json_has_an_object_on_each_line() {
    let backend = Backend::prompt();
    let directory = tempfile::tempdir().unwrap();
    let mut gate = Gate::start_in(directory, &backend.url(), &["--log-format", "json"], &[]);
    gate.signal(Signal::HUP);
    gate.wait_for("configuration reloaded");
    for line in gate.seen() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(object["message"].is_string(), "{line}");
    }
}

#[test]
fn what_cannot_be_used_is_named_at_the_start() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let start = |arguments: &[&str]| {
        let fixed = ["serve", "--upstream", &backend.url(), "--listen", "127.0.0.1:0", "--admin"];
        let output = run(directory.path(), &[&fixed, arguments].concat(), &[]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let refused = start(&[&taken]);
    assert!(refused.contains(&format!("error: [admin] listen {taken} cannot be listened on")), "{refused}");
    fs::write(directory.path().join("diary.db"), "a diary").unwrap();
    let refused = start(&["127.0.0.1:0", "--store", "sqlite://diary.db"]);
    assert!(refused.contains("error: store sqlite://diary.db: ") && refused.contains("is not an SQLite"), "{refused}");
    let refused = start(&["127.0.0.1:0", "--log", "loud=very"]);
    assert!(refused.contains("error: --log \"loud=very\""), "{refused}");
}
