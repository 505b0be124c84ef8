//! `oncegate serve` on PostgreSQL.

use crate::{
    backend::Backend,
    http::pay,
    process::{Gate, run, text},
    servers::postgres::PostgresServer,
};

#[test]
fn two_gates_share_one_database() {
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let backend = Backend::prompt();
    let start = || Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &["--store", &store], &[]);
    let (one, other) = (start(), start());
    let (first, repeat) = (pay(&one.address, "k1"), pay(&other.address, "k1"));
    assert_eq!((first.status(), first.field("idempotent-replayed")), (201, None));
    assert_eq!((repeat.status(), repeat.field("idempotent-replayed"), &*repeat.body), (201, Some("true"), "paid"));
    assert_eq!(backend.executions(), 1, "one for both");

    let transactional = [("ONCEGATE__DEFAULTS__BACKEND", "transactional")];
    let arguments = ["check", "--upstream", &backend.url(), "--store", &store];
    let output = run(one.directory.path(), &arguments, &transactional);
    let printed = text(&output.stdout);
    assert!(printed.contains("1 completed, 0 in flight, 0 abandoned, 0 unknown"), "{printed}");
    assert!(printed.contains("note: route defaults: its backend must complete each record"), "{printed}");
    assert!(!printed.contains("warning: "), "{printed}");
    let seen = [one.seen().join("\n"), printed, text(&output.stderr)].concat();
    assert!(seen.contains(&format!("store postgres://{user}@127.0.0.1:{port}/shop")), "{seen}");
    assert!(!seen.contains(password), "a password is never shown");
}
