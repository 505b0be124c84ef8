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

#[test]
fn a_schema_that_must_be_left_as_it_is_is_refused_until_somebody_migrates_it() {
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::prompt();
    let url = backend.url();
    let left_alone = [("ONCEGATE__STORE__MIGRATE", "false"), ("ONCEGATE__STORE__URL", &*store)];
    let common = ["--upstream", &*url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

    let serve = [&["serve"], &common[..]].concat();
    let check = [&["check"], &common[..]].concat();
    for without in [
        "DROP SCHEMA IF EXISTS oncegate",
        "DELETE FROM oncegate.migrations WHERE number = (SELECT max(number) FROM oncegate.migrations)",
    ] {
        server.execute("shop", without).unwrap();
        let refused = run(directory.path(), &serve, &left_alone);
        let said = text(&refused.stderr);
        assert!(said.contains("lacks") && said.contains("oncegate migrate") && !said.contains(password), "{said}");
        assert_eq!(refused.status.code(), Some(1), "{said}");
        let checked = text(&run(directory.path(), &check, &left_alone).stdout);
        assert!(checked.contains("FAILED") && checked.contains("run `oncegate migrate`"), "{checked}");
        let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'oncegate'";
        let expected = if without.starts_with("DROP") { "0" } else { "1" };
        assert_eq!(server.execute("shop", there).unwrap(), expected, "nothing was touched");
        if expected == "0" {
            let checked = text(&run(directory.path(), &check, &left_alone[1..]).stdout);
            assert!(checked.contains("serve applies them"), "{checked}");
        }
        assert!(run(directory.path(), &["migrate", "--store", &store], &[]).status.success() || expected == "1");
    }
    server.execute("shop", "DROP SCHEMA oncegate CASCADE").unwrap();
    assert!(run(directory.path(), &["migrate", "--store", &store], &[]).status.success());
    let gate = Gate::start_in(directory, &url, &[], &left_alone);
    assert_eq!(pay(&gate.address, "k1").status(), 201);
}
