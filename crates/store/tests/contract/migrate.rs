//! Migrations: many instances at once, psql in our place, and what is refused.

use std::{io::Write as _, time::Duration};

use futures_util::future::join_all;
use oncegate_store::postgres::{MigrateError, Migrator};
use tokio::time::timeout;

use crate::{
    answer::{KEY, claim, code, complete, end_leases, run, text},
    jobs::reaped,
    server::Server,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_instances_one_migrates() {
    let server = Server::start(&[]).await;
    let mut migrators = join_all((0..16).map(|_| server.migrator())).await;
    let applied = join_all(migrators.iter_mut().map(Migrator::migrate)).await;
    let applied: Vec<_> = applied.into_iter().map(Result::unwrap).collect();
    let all = usize::try_from(Migrator::SCHEMA).unwrap();
    assert_eq!(applied.iter().filter(|steps| **steps == all).count(), 1, "{applied:?}");
    assert_eq!(applied.iter().sum::<usize>(), all);
    let noted = "SELECT count(*) || ', ' || min(number || ' ' || name) FROM oncegate.migrations";
    assert_eq!(text(&server.connect().await, noted).await, format!("{all}, 1 create_records"));
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
    let (known, newer) = (Migrator::SCHEMA, Migrator::SCHEMA + 1);
    run(&client, &format!("INSERT INTO oncegate.migrations VALUES ({newer}, 'add_wings', 'x')")).await.unwrap();
    let refused = migrator.migrate().await.unwrap_err();
    let words = format!(
        "the database has schema {newer} (add_wings), and this program knows {known} at most: use the newer program"
    );
    assert_eq!(refused.to_string(), words);
    assert!(matches!(migrator.script().await, Err(MigrateError::Newer { found, .. }) if found == newer));
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
    assert_eq!(migrator.migrate().await.unwrap(), usize::try_from(Migrator::SCHEMA).unwrap() - 1);
    assert_eq!(claim(&client, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn records_of_the_third_schema_are_reaped_by_the_newest() {
    let server = Server::start(&[]).await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    for (number, name, sql) in [
        (1, "create_records", include_str!("../../src/postgres/migrations/001_create_records.sql")),
        (2, "create_functions", include_str!("../../src/postgres/migrations/002_create_functions.sql")),
        (3, "create_operations", include_str!("../../src/postgres/migrations/003_create_operations.sql")),
    ] {
        run(&client, sql).await.unwrap();
        let note = "INSERT INTO oncegate.migrations VALUES ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))";
        client.execute(note, &[&number, &name, &sql]).await.unwrap();
    }
    for key in 0..20 {
        let lease = claim(&client, &format!("'shop', 'k{key}', 'f', on_abandoned => 'unknown'")).await;
        if key < 10 {
            complete(&client, &lease).await.unwrap();
        }
    }
    end_leases(&client).await;
    run(&client, "UPDATE oncegate.records SET expires_at = completed_at + interval '1 ms' WHERE key = 'k0'")
        .await
        .unwrap();
    // A pass of the third schema, which leaves its place.
    assert_eq!(text(&client, "oncegate.reap(1)").await, "1");
    assert_eq!(migrator.migrate().await.unwrap(), usize::try_from(Migrator::SCHEMA).unwrap() - 3);
    reaped(&client, 100, 10).await;
    let counted =
        "SELECT count(*) FILTER (WHERE state = 'completed') || ' ' || count(*) FILTER (WHERE state = 'unknown')
                   FROM oncegate.records";
    assert_eq!(text(&client, counted).await, "9 10");
    assert_eq!(claim(&client, "'shop', 'k1', 'f'").await.outcome, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_go_on_while_a_migration_waits_for_a_backup() {
    let server = Server::start(&[]).await;
    let (client, backup, observer) = (server.connect().await, server.connect().await, server.connect().await);
    for (number, name, sql) in [
        (1, "create_records", include_str!("../../src/postgres/migrations/001_create_records.sql")),
        (2, "create_functions", include_str!("../../src/postgres/migrations/002_create_functions.sql")),
    ] {
        run(&client, sql).await.unwrap();
        let note = "INSERT INTO oncegate.migrations VALUES ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))";
        client.execute(note, &[&number, &name, &sql]).await.unwrap();
    }
    run(&backup, "BEGIN; LOCK TABLE oncegate.records, oncegate.responses IN ACCESS SHARE MODE").await.unwrap();
    let mut migrator = server.migrator().await;
    assert!(migrator.script().await.unwrap().contains("SET LOCAL lock_timeout"));
    let migrating = tokio::spawn(async move { migrator.migrate().await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'";
    while text(&observer, waiting).await == "0" {
        assert!(!migrating.is_finished(), "nothing of it needs the table for itself");
    }
    let claimed = timeout(Duration::from_secs(60), claim(&client, KEY)).await;
    assert_eq!(claimed.expect("it waits for the backup to end").outcome, "acquired");
    run(&backup, "COMMIT").await.unwrap();
    assert_eq!(migrating.await.unwrap().unwrap(), usize::try_from(Migrator::SCHEMA).unwrap() - 2);
}

#[tokio::test]
async fn an_owner_who_may_make_no_roles_migrates_all_the_same() {
    let server = Server::start(&[]).await;
    let client = server.connect().await;
    run(&client, "CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper").await.unwrap();
    let steps = server.migrator_as("keeper").await.migrate().await.unwrap();
    assert_eq!(steps, usize::try_from(Migrator::SCHEMA).unwrap());
    assert_eq!(text(&client, "SELECT count(*) FROM pg_roles WHERE rolname = 'oncegate_app'").await, "0");
    let keeper = server.connect_as("keeper").await;
    assert_eq!(claim(&keeper, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn whoever_could_enter_may_enter_what_is_new() {
    let server = Server::migrated().await;
    let (client, mut migrator) = (server.connect().await, server.migrator().await);
    // The schema before, with a right that was given by hand, as where no role of ours could be made.
    run(
        &client,
        "DROP FUNCTION oncegate.enter_new;
         DELETE FROM oncegate.migrations WHERE number >= 13;
         CREATE ROLE \"Shop\" LOGIN;
         CREATE ROLE stranger LOGIN;
         GRANT USAGE ON SCHEMA oncegate TO \"Shop\", stranger;
         GRANT EXECUTE ON FUNCTION oncegate.enter TO \"Shop\"",
    )
    .await
    .unwrap();
    migrator.migrate().await.unwrap();
    let call = "BEGIN; SELECT oncegate.enter_new('shop', 'k', 'f'); ROLLBACK";
    run(&server.connect_as("Shop").await, call).await.unwrap();
    assert_eq!(code(run(&server.connect_as("stranger").await, call).await), "42501");
}
