//! The log of requests on standard output.

use std::{fs, process::Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    backend::Backend,
    http::{get, send},
    process::{Gate, oncegate},
};

const TRACE: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
                     tracestate: vendor=secret-state\r\n";

/// What the log has of these requests, whose keys, credentials, queries and bodies are secret.
fn logged(backend: &Backend, settings: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let fixed = ["serve", "--upstream", &backend.url(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut command = oncegate(directory.path(), &fixed);
    command.envs(settings.iter().copied()).stdout(Stdio::from(log.reopen().unwrap()));
    let mut gate = Gate::start_as(command, directory);
    gate.address = gate.wait_for("listening on http://");
    let pay = |fields: &str| send(&gate.address, "POST", "/payments?q=secret", fields).answer().status();
    let keyed = format!("Idempotency-Key: secret-key\r\nAuthorization: Bearer secret-token\r\n{TRACE}");
    assert_eq!((pay(&keyed), pay(&keyed), pay("Idempotency-Key: \r\n")), (201, 201, 400));
    assert_eq!(get(&gate.address, "/orders/7?q=secret", "").status(), 201);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().0.code(), Some(0));
    fs::read_to_string(log.path()).unwrap()
}

#[test]
fn each_request_has_a_line_that_gives_nothing_away() {
    let backend = Backend::prompt();
    let text = logged(&backend, &[("ONCEGATE__ACCESS_LOG__FORMAT", "json")]);
    assert!(!text.contains("secret") && !text.contains("amount"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        lines.iter().map(|line| (line["outcome"].as_str().unwrap(), line["status"].as_u64().unwrap())).collect();
    assert_eq!(told, [("executed", 201), ("replayed", 201), ("rejected", 400), ("bypassed", 201)], "{text}");
    let [first, repeat, refused, passed] = &lines[..] else { panic!("{text}") };
    assert_eq!((&first["record"], first["record"].as_str().unwrap().len()), (&repeat["record"], 8));
    assert_eq!((&first["attempt"], &repeat["attempt"]), (&1.into(), &Value::Null));
    assert!(first["claim_seconds"].is_f64() && first["upstream_seconds"].is_f64() && first["seconds"].is_f64());
    assert_eq!(
        (&first["path"], &passed["path"], &passed["method"]),
        (&"/payments".into(), &"/orders/7".into(), &"GET".into())
    );
    assert_eq!((&first["route"], &first["trace"]), (&"defaults".into(), &"4bf92f3577b34da6a3ce929d0e0e4736".into()));
    assert_eq!((&refused["record"], &refused["trace"]), (&Value::Null, &Value::Null));

    let forwarded = backend.arrival();
    let sent = TRACE.lines().map(|line| line.split_once(": ").unwrap());
    sent.for_each(|(name, value)| assert_eq!(forwarded.field(name), Some(value), "a trace goes on behind the gate"));
}

#[test]
fn keys_are_written_where_that_was_asked_for_and_nothing_where_nothing_was() {
    let backend = Backend::prompt();
    let full = [("ONCEGATE__ACCESS_LOG__FORMAT", "text"), ("ONCEGATE__ACCESS_LOG__FULL_KEYS", "true")];
    let text = logged(&backend, &full);
    let first = text.lines().next().unwrap();
    assert!(first.contains(" POST /payments 201 executed route=defaults record="), "{first}");
    assert!(first.contains(" key=secret-key scope=authorization#32:"), "{first}");
    assert!(!text.contains("secret-token"), "credentials are never written: {text}");
    assert_eq!(logged(&backend, &[]), "");
}
