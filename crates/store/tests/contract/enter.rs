//! Single-transaction mode: record, effect and response in one commit.

use futures_util::future::join_all;
use tokio_postgres::{Client, Error};

use crate::{
    answer::{Answer, KEY, ask, claim, code, complete, connections, end_leases, run, text},
    server::Server,
};

async fn enter(client: &Client, arguments: &str) -> Answer {
    ask(client, "enter", arguments).await.unwrap()
}

/// One request, as a handler would serve it: the outcome, after the commit.
async fn pay(client: &Client, key: &str) -> Result<String, Error> {
    run(client, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let entered = ask(client, "enter", &format!("'shop', '{key}', 'f'")).await?;
    if entered.outcome == "acquired" {
        run(client, "INSERT INTO payments VALUES (1)").await?;
        complete(client, &entered).await?;
    }
    run(client, "COMMIT").await?;
    Ok(entered.outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_hundred_repeats_one_pays_and_no_other_waits() {
    let server = Server::migrated().await;
    // Whoever waits for the holder fails by this, for it does not end before all repeats have their answer.
    run(&server.connect().await, "ALTER ROLE postgres SET lock_timeout = '10 s'").await.unwrap();
    let clients = connections(&server, 301).await;
    let (holder, repeats) = clients.split_first().unwrap();
    run(holder, "CREATE TABLE payments (amount int)").await.unwrap();
    run(holder, "BEGIN").await.unwrap();
    let entered = enter(holder, "'shop', 'held', 'f'").await;
    run(holder, "INSERT INTO payments VALUES (1)").await.unwrap();
    let answers = join_all(repeats.iter().map(|client| pay(client, "held"))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == "in_flight"));
    complete(holder, &entered).await.unwrap();
    run(holder, "COMMIT").await.unwrap();
    assert_eq!(text(holder, "SELECT count(*) FROM payments").await, "1");

    let answers = join_all(clients.iter().map(|client| pay(client, "free"))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|outcome| *outcome == "acquired").count(), 1);
    assert!(answers.iter().all(|outcome| ["acquired", "in_flight", "completed"].contains(&&**outcome)));
    assert_eq!(text(holder, "SELECT count(*) FROM payments").await, "2");
}

#[tokio::test]
async fn what_was_entered_and_rolled_back_was_never_there() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "BEGIN").await.unwrap();
    assert_eq!(enter(&client, KEY).await.outcome, "acquired");
    run(&client, "ROLLBACK").await.unwrap();
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.records").await, "0");
    assert_eq!(claim(&client, KEY).await.attempt, Some(1));
}

#[tokio::test]
async fn a_commit_without_a_completion_fails_and_takes_the_effect_with_it() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "CREATE TABLE payments (amount int)").await.unwrap();
    run(&client, "BEGIN").await.unwrap();
    enter(&client, KEY).await;
    run(&client, "INSERT INTO payments VALUES (1)").await.unwrap();
    assert_eq!(code(run(&client, "COMMIT").await), "OG004");
    let rows = "SELECT count(*) || ' ' || (SELECT count(*) FROM oncegate.records) FROM payments";
    assert_eq!(text(&client, rows).await, "0 0");
    assert_eq!(code(ask(&client, "enter", KEY).await), "OG004", "a statement of its own commits at once");
}

#[tokio::test]
async fn what_is_entered_twice_in_one_transaction_executes_once() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "BEGIN").await.unwrap();
    let entered = enter(&client, KEY).await;
    assert_eq!(enter(&client, KEY).await.outcome, "in_flight");
    complete(&client, &entered).await.unwrap();
    assert_eq!(enter(&client, KEY).await.outcome, "completed");
    run(&client, "COMMIT").await.unwrap();
}

#[tokio::test]
async fn an_entry_may_follow_other_writes_and_take_over() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "CREATE TABLE sessions (id int)").await.unwrap();
    let first = claim(&client, KEY).await;
    end_leases(&client).await;
    run(&client, "BEGIN; INSERT INTO sessions VALUES (1)").await.unwrap();
    let entered = enter(&client, KEY).await;
    assert_eq!((&*entered.outcome, entered.attempt), ("acquired", Some(2)));
    complete(&client, &entered).await.unwrap();
    run(&client, "COMMIT").await.unwrap();
    assert_eq!(code(complete(&client, &first).await), "OG001");
    assert_eq!(claim(&client, KEY).await.outcome, "completed");
}

#[tokio::test]
async fn an_entry_whose_savepoint_is_rolled_back_may_be_tried_again() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "BEGIN; SAVEPOINT part").await.unwrap();
    enter(&client, KEY).await;
    run(&client, "ROLLBACK TO part").await.unwrap();
    let entered = enter(&client, KEY).await;
    assert_eq!(entered.outcome, "acquired");
    complete(&client, &entered).await.unwrap();
    run(&client, "COMMIT").await.unwrap();
    assert_eq!(claim(&client, KEY).await.status, Some(201));
}

/// The columns of `enter_new`; `None`: nothing was entered.
async fn enter_new(client: &Client, arguments: &str) -> Option<Answer> {
    let call = format!("SELECT record::text, fence FROM oncegate.enter_new({arguments})");
    let row = client.query_one(&call, &[]).await.unwrap();
    let (record, fence) = (row.get::<_, Option<String>>(0), row.get::<_, Option<i64>>(1));
    assert_eq!(record.is_some(), fence.is_some(), "{arguments}");
    Some(Answer { record: record?, fence, ..Answer::default() })
}

#[tokio::test]
async fn what_is_new_is_entered_and_completed() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let entered = enter_new(&client, "'shop', 'k', 'f', '1 h', 'POST /pay', 'unknown'").await.unwrap();
    assert_eq!(entered.record, text(&client, "oncegate.record_id('shop', 'k')").await);
    complete(&client, &entered).await.unwrap();
    run(&client, "COMMIT").await.unwrap();
    let row = "SELECT retention || ' ' || operation || ' ' || on_abandoned || ' ' || attempt || ' ' || state
               FROM oncegate.records";
    assert_eq!(text(&client, row).await, "01:00:00 POST /pay unknown 1 completed");
    assert_eq!(enter(&client, KEY).await.status, Some(201));
    assert_eq!(enter_new(&client, KEY).await, None, "and of what is there `enter` tells");
}

#[tokio::test]
async fn what_is_new_and_not_completed_is_not_committed() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "BEGIN").await.unwrap();
    assert!(enter_new(&client, KEY).await.is_some());
    assert_eq!(code(run(&client, "COMMIT").await), "OG004");
}

#[tokio::test]
async fn what_cannot_be_entered_as_new_is_left_to_enter() {
    let server = Server::migrated().await;
    let (client, holder) = (server.connect().await, server.connect().await);
    run(&holder, "BEGIN").await.unwrap();
    enter(&holder, "'shop', 'held', 'f'").await;
    // Whoever waits for the holder fails by this.
    run(&client, "SET lock_timeout = '10 s'").await.unwrap();
    for arguments in [
        "'shop', 'held', 'f'",
        "repeat('s', 1025), 'k', 'f'",
        "NULL, 'k', 'f'",
        "'s', '', 'f'",
        "'s', repeat('k', 256), 'f'",
        "'s', 'a b', 'f'",
        "'s', NULL, 'f'",
        "'s', 'k', ''",
        "'s', 'k', decode(repeat('aa', 65), 'hex')",
        "'s', 'k', NULL",
        "'s', 'k', 'f', '0'",
        "'s', 'k', 'f', '401 days'",
        "'s', 'k', 'f', '762 days -12 months'",
        "'s', 'k', 'f', NULL",
        "'s', 'k', 'f', '1 h', '', 'retry'",
        "'s', 'k', 'f', '1 h', '', NULL",
    ] {
        assert_eq!(enter_new(&client, arguments).await, None, "{arguments}");
    }
    for how in [
        "ISOLATION LEVEL REPEATABLE READ",
        "ISOLATION LEVEL SERIALIZABLE",
        "ISOLATION LEVEL READ UNCOMMITTED",
        "READ ONLY",
    ] {
        run(&client, &format!("BEGIN {how}")).await.unwrap();
        assert_eq!(enter_new(&client, KEY).await, None, "{how}");
        run(&client, "ROLLBACK").await.unwrap();
    }
    run(&client, "BEGIN ISOLATION LEVEL READ UNCOMMITTED").await.unwrap();
    assert_eq!(enter(&client, KEY).await.outcome, "acquired", "by name only it is less strict");
    run(&client, "ROLLBACK").await.unwrap();
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.records").await, "0");
}
