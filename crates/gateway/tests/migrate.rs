//! `oncegate migrate` on a real PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

#[allow(dead_code, reason = "other tests use more of it")]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
}

use oncegate_store::postgres::Migrator;
use servers::postgres::PostgresServer;

const DATABASE: &str = "shop";

/// A server with an empty database, and the address of it.
fn server() -> (PostgresServer, String) {
    let server = PostgresServer::start().unwrap();
    server.create_database(DATABASE).unwrap();
    let address = format!("postgres://{}:{}@127.0.0.1:{}/{DATABASE}", server.user(), server.password(), server.port());
    (server, address)
}

fn migrate(arguments: &[&str]) -> Output {
    let mut oncegate = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    oncegate.arg("migrate").args(arguments).env_remove("ONCEGATE__STORE__URL").output().unwrap()
}

/// What it said, after it ended with this exit code.
fn said(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn an_empty_database_gets_the_schema_once() {
    let (server, address) = server();
    let said_first = said(&migrate(&["--store", &address]), 0);
    let schema = Migrator::SCHEMA;
    assert_eq!(said_first, format!("the schema is {schema} now, after {schema} migrations\n"));
    let said_then = said(&migrate(&["--store", &address]), 0);
    assert_eq!(said_then, format!("the schema is {schema}, nothing was left to do\n"));
    let claimed = server.execute(DATABASE, "SELECT outcome, fence FROM oncegate.claim('shop', 'k', 'f')").unwrap();
    assert_eq!(claimed, "acquired|1");
}

#[test]
fn the_address_may_stand_in_a_file_for_every_command() {
    let (server, address) = server();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("address");
    std::fs::write(&file, format!("{address}\n")).unwrap();
    let command = |arguments: &[&str]| {
        let mut oncegate = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        oncegate.args(arguments).current_dir(directory.path()).env("ONCEGATE__STORE__URL_FILE", &file);
        oncegate.env_remove("ONCEGATE__STORE__URL").output().unwrap()
    };
    let schema = Migrator::SCHEMA;
    let said_first = said(&command(&["migrate"]), 0);
    assert_eq!(said_first, format!("the schema is {schema} now, after {schema} migrations\n"));
    said(&command(&["records", "list"]), 0);
    // Nobody listens where the service should be; the store is what is looked at.
    let checked = command(&["check", "--upstream", "http://127.0.0.1:1"]);
    let printed = String::from_utf8(checked.stdout).unwrap();
    assert!(printed.contains("0 completed, 0 in flight") && !printed.contains(server.password()), "{printed}");
}

#[test]
fn what_is_printed_is_not_done() {
    let (server, address) = server();
    let printed = migrate(&["--print", "--store", &address]);
    assert_eq!(said(&printed, 0), "");
    let script = String::from_utf8(printed.stdout).unwrap();
    for words in ["\\set ON_ERROR_STOP on\nBEGIN", "CREATE TABLE oncegate.records", "oncegate.claim(", "\nCOMMIT;\n"] {
        assert!(script.contains(words), "{words} is not in it");
    }
    let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'oncegate'";
    assert_eq!(server.execute(DATABASE, there).unwrap(), "0");
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let (server, address) = server();
    said(&migrate(&["--store", &address]), 0);
    server.execute(DATABASE, "INSERT INTO oncegate.migrations VALUES (99, 'add_wings', '')").unwrap();
    for arguments in [&["--store", &address][..], &["--print", "--store", &address]] {
        let output = migrate(arguments);
        let words = format!("schema 99 (add_wings), and this program knows {} at most", Migrator::SCHEMA);
        assert!(said(&output, 1).contains(&words));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn other_addresses_are_refused_without_their_passwords() {
    let refused = said(&migrate(&["--store", "sqlite://oncegate.db"]), 1);
    assert!(refused.contains("only a PostgreSQL store has a schema to migrate"), "{refused}");
    // Nobody listens there.
    let refused = said(&migrate(&["--store", "postgres://ada:hunter2@127.0.0.1:1/shop"]), 1);
    assert!(refused.contains("store postgres://ada@127.0.0.1:1/shop: PostgreSQL cannot be reached"), "{refused}");
    for address in ["postgres://ada:hunter2@db:port/shop", "mysql://ada:hunter2@db/shop"] {
        let refused = said(&migrate(&["--store", address]), 2);
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
