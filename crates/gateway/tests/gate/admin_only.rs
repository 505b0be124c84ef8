//! `oncegate serve --admin-only`: the records of services that guard themselves.

use std::{
    fs,
    io::Write as _,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    api::api,
    backend::Backend,
    http::{self, get, pay},
    process::{Gate, PATIENCE, run, text},
    servers::postgres::PostgresServer,
};

/// What a service does that guards itself: claims, and completes or dies.
fn claim(server: &PostgresServer, key: &str) -> String {
    let claim = format!("oncegate.claim('python', '{key}', '\\x01', lease => '100 ms', operation => 'POST /pay')");
    let claimed = server.execute("shop", &format!("SELECT record, fence FROM {claim}")).unwrap();
    claimed.replace('|', "', ")
}

fn tell(gate: &Gate, path: &str, order: &Value) -> u16 {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (body, json) = (order.to_string(), "Content-Type: application/json\r\n");
    let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{json}", gate.admin);
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    http::read(&mut stream).unwrap().status()
}

pub(crate) fn wait_for_metrics(gate: &Gate, expected: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = get(&gate.admin, "/metrics", "").body;
        if expected.iter().all(|line| metrics.lines().any(|each| each == *line)) {
            return;
        }
        assert!(Instant::now() < deadline, "never {expected:?}:\n{metrics}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn operators_see_and_settle_what_services_without_a_gate_have_stored() {
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    // A file of the gates, whose service and address are nothing to this one.
    let directory = tempfile::tempdir().unwrap();
    let configuration =
        "upstream = \"http://app.invalid\"\nlisten = \"192.0.2.1:80\"\n[admin]\ntoken_file = \"token\"\n";
    fs::write(directory.path().join("gate.toml"), configuration).unwrap();
    fs::write(directory.path().join("token"), "x".repeat(32)).unwrap();
    let arguments = ["--admin-only", "--config", "gate.toml", "--store", &store];
    let mut gate = Gate::start_admin_in(directory, &arguments, &[]);
    assert!(!gate.seen().concat().contains("app.invalid"), "{:?}", gate.seen());
    let authorised = |token: &str| get(&gate.admin, "/metrics", &format!("Authorization: Bearer {token}\r\n")).status();
    assert_eq!((authorised(&"x".repeat(32)), authorised("no")), (200, 401));

    // A reload holds for what is left of it.
    fs::write(gate.directory.path().join("gate.toml"), "").unwrap();
    gate.signal(Signal::HUP);
    gate.wait_for("configuration reloaded");
    claim(&server, "died");
    let paid = claim(&server, "paid");
    server.execute("shop", &format!("SELECT oncegate.complete('{paid}, 201, '[]', 'paid')")).unwrap();
    assert_eq!((get(&gate.admin, "/healthz", "").status(), get(&gate.admin, "/readyz", "").status()), (200, 200));
    let counted = ["oncegate_abandoned_records 1", "oncegate_completed_records 1", "oncegate_unknown_records 0"];
    wait_for_metrics(&gate, &counted);
    let listed = api(&gate, "/api/records?abandoned=true");
    let record = &listed["records"][0];
    assert_eq!((&record["operation"], &record["scope"]), (&json!("POST /pay"), &json!("python")), "{listed}");

    let path = format!("/api/records/{}/release", record["record"].as_str().unwrap());
    let order = json!({ "fence": record["fence"], "state": "in_flight", "reason": "looked at the books" });
    assert_eq!(tell(&gate, &path, &order), 200);
    assert_eq!(server.execute("shop", "SELECT key FROM oncegate.records").unwrap(), "paid");
    wait_for_metrics(&gate, &["oncegate_abandoned_records 0"]);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().0.code(), Some(0));
}

#[test]
fn it_may_stand_beside_the_gate_whose_file_it_shows() {
    let backend = Backend::prompt();
    let gate = Gate::start(&backend.url());
    assert_eq!(pay(&gate.address, "k1").status(), 201);
    let store = format!("sqlite://{}", gate.directory.path().join("oncegate.db").display());
    let beside = Gate::start_admin_in(tempfile::tempdir().unwrap(), &["--admin-only", "--store", &store], &[]);
    assert_eq!(api(&beside, "/api/records")["records"][0]["state"], "completed");
    wait_for_metrics(&beside, &["oncegate_completed_records 1", "oncegate_store_up 1"]);
    assert_eq!(pay(&gate.address, "k1").field("idempotent-replayed"), Some("true"));
}

#[test]
fn what_only_a_gate_needs_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |more: &[&str]| {
        let output = run(directory.path(), &[&["serve", "--admin-only"], more].concat(), &[]);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        text(&output.stderr)
    };
    for flag in [["--upstream", "http://app"].as_slice(), &["--listen", "127.0.0.1:0"], &["--print-config"]] {
        let said = refused(flag);
        assert!(
            said.contains("--admin-only") && said.contains("cannot be used with") && said.contains(flag[0]),
            "{said}"
        );
    }
    let said = refused(&["--store", "memory://single-process"]);
    assert!(said.contains("shows what others have stored"), "{said}");
}
