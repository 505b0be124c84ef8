//! Migrations: many instances at once, psql in our place, and what is refused.

use std::io::Write as _;

use futures_util::future::join_all;
use oncegate_store::postgres::{MigrateError, Migrator};

use crate::{
    answer::{KEY, claim, run, text},
    server::Server,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_instances_one_migrates() {
    let server = Server::start(&[]).await;
    let mut migrators = join_all((0..16).map(|_| server.migrator())).await;
    let applied = join_all(migrators.iter_mut().map(Migrator::migrate)).await;
    let applied: Vec<_> = applied.into_iter().map(Result::unwrap).collect();
    assert_eq!(applied.iter().filter(|steps| **steps == 3).count(), 1, "{applied:?}");
    assert_eq!(applied.iter().sum::<usize>(), 3);
    let noted = "SELECT string_agg(number || ' ' || name, ', ' ORDER BY number) FROM oncegate.migrations";
    assert_eq!(text(&server.connect().await, noted).await, "1 create_records, 2 create_functions, 3 create_operations");
}

#[tokio::test]
async fn psql_can_run_what_is_printed() {
    let server = Server::start(&[]).await;
    let mut migrator = server.migrator().await;
    let script = migrator.script().await.unwrap();
    let mut psql = server.psql().arg("--quiet").stdin(std::process::Stdio::piped()).spawn().unwrap();
    psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(psql.wait().unwrap().success());
    assert_eq!(migrator.migrate().await.unwrap(), 0, "nothing is left to do");
    assert_eq!(migrator.script().await.unwrap(), "");
    assert_eq!(claim(&server.connect().await, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let server = Server::migrated().await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    run(&client, "INSERT INTO oncegate.migrations VALUES (4, 'add_wings', 'x')").await.unwrap();
    let refused = migrator.migrate().await.unwrap_err();
    let words = "the database has schema 4 (add_wings), and this program knows 3 at most: use the newer program";
    assert_eq!(refused.to_string(), words);
    assert!(matches!(migrator.script().await, Err(MigrateError::Newer { found: 4, .. })));
}

#[tokio::test]
async fn a_schema_that_was_applied_in_another_form_is_refused() {
    let server = Server::migrated().await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    run(&client, "UPDATE oncegate.migrations SET checksum = 'x' WHERE number = 2").await.unwrap();
    assert!(matches!(migrator.migrate().await, Err(MigrateError::Differs { number: 2, .. })));
    run(&client, "DELETE FROM oncegate.migrations WHERE number = 1").await.unwrap();
    assert!(matches!(migrator.migrate().await, Err(MigrateError::Gap { number: 1 })));
}

#[tokio::test]
async fn a_schema_of_somebody_elses_is_left_alone() {
    let server = Server::start(&[]).await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    run(&client, "CREATE SCHEMA oncegate; CREATE TABLE oncegate.theirs (id int)").await.unwrap();
    assert!(matches!(migrator.migrate().await, Err(MigrateError::Failed(_))));
    let tables = "SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'oncegate'";
    assert_eq!(text(&client, tables).await, "theirs");
}

#[tokio::test]
async fn an_older_schema_is_brought_up_to_date() {
    let server = Server::start(&[]).await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    let first = include_str!("../../src/postgres/migrations/001_create_records.sql");
    run(&client, first).await.unwrap();
    // As by the program that knew one.
    client
        .execute(
            "INSERT INTO oncegate.migrations VALUES (1, 'create_records', encode(sha256(convert_to($1, 'UTF8')), 'hex'))",
            &[&first],
        )
        .await
        .unwrap();
    assert_eq!(migrator.migrate().await.unwrap(), 2);
    assert_eq!(claim(&client, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn an_owner_who_may_make_no_roles_migrates_all_the_same() {
    let server = Server::start(&[]).await;
    let client = server.connect().await;
    run(&client, "CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper").await.unwrap();
    assert_eq!(server.migrator_as("keeper").await.migrate().await.unwrap(), 3);
    assert_eq!(text(&client, "SELECT count(*) FROM pg_roles WHERE rolname = 'oncegate_app'").await, "0");
    let keeper = server.connect_as("keeper").await;
    assert_eq!(claim(&keeper, KEY).await.outcome, "acquired");
}
