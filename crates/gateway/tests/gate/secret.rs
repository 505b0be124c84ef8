//! The secret by which a transactional backend knows what the gate has claimed.

use std::fs;

use rustix::process::Signal;

use crate::{
    backend::Backend,
    http::send,
    process::{Gate, run, text},
    servers::postgres::PostgresServer,
};

const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";
const CONFIGURATION: &str = "[defaults]\nbackend = \"transactional\"\nupstream_secret_file = \"secret\"\n";

/// What clients try: the right secret in every spelling that a service may take for the header.
const FORGED: &str = "Oncegate-Secret: 0123456789abcdef0123456789abcdef\r\nONCEGATE_SECRET: \
                      0123456789abcdef0123456789abcdef\r\noncegate.secret: 0123456789abcdef0123456789abcdef\r\n";

#[test]
fn it_goes_along_with_what_was_claimed_changes_with_a_reload_and_is_shown_nowhere() {
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    fs::write(directory.path().join("gate.toml"), CONFIGURATION).unwrap();
    fs::write(directory.path().join("secret"), OLD).unwrap();
    let arguments = ["--config", "gate.toml", "--store", &store, "--log", "trace"];
    let mut gate = Gate::start_in(directory, &backend.url(), &arguments, &[]);

    let sent = |gate: &Gate, fields: &str| -> Vec<String> {
        assert_eq!(send(&gate.address, "POST", "/payments", &format!("{FORGED}{fields}")).answer().status(), 201);
        let is_secret = |name: &str| name.starts_with("oncegate") && name.ends_with("secret");
        backend.arrival().fields_like(is_secret).map(str::to_owned).collect()
    };
    assert_eq!(sent(&gate, "Idempotency-Key: k1\r\n"), [OLD]);
    assert!(sent(&gate, "").is_empty(), "it was not claimed");

    fs::write(gate.directory.path().join("secret"), NEW).unwrap();
    gate.signal(Signal::HUP);
    gate.wait_for("configuration reloaded");
    assert_eq!(sent(&gate, "Idempotency-Key: k2\r\n"), [NEW]);

    let upstream = backend.url();
    let common = ["--config", "gate.toml", "--upstream", &upstream, "--store", &store];
    let mut shown: Vec<String> = [["check"].as_slice(), &["check", "--json"], &["serve", "--print-config"]]
        .iter()
        .map(|command| run(gate.directory.path(), &[*command, &common].concat(), &[]))
        .inspect(|output| assert!(output.status.success(), "{}", text(&output.stderr)))
        .flat_map(|output| [text(&output.stdout), text(&output.stderr)])
        .collect();
    let rows = "SELECT string_agg(r::text || coalesce(s::text, ''), ' ') FROM oncegate.records AS r \
                LEFT JOIN oncegate.responses AS s USING (record, fence)";
    shown.push(server.execute("shop", rows).unwrap());
    assert!(shown.last().is_some_and(|rows| rows.contains("k1") && rows.contains("k2")), "{shown:?}");
    gate.signal(Signal::TERM);
    gate.wait_for("stopped");
    shown.extend(gate.seen().iter().cloned());
    assert!(shown.iter().all(|text| !text.contains(OLD) && !text.contains(NEW)), "{shown:#?}");
}
