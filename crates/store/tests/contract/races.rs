//! Both sides of each race.

use std::future::Future;

use futures_util::future::join_all;
use tokio_postgres::{Client, Error};

use crate::{
    answer::{Answer, KEY, ask, claim, code, complete, connections, end_leases, run, text},
    server::Server,
};

/// What every caller gets, all asking at the same time.
async fn all<'a, F: Future<Output = Answer>>(clients: &'a [Client], ask: impl Fn(&'a Client) -> F) -> Vec<Answer> {
    join_all(clients.iter().map(ask)).await
}

fn count(answers: &[Answer], outcome: &str) -> usize {
    answers.iter().filter(|answer| answer.outcome == outcome).count()
}

/// Whoever has to wait for somebody's transaction fails by this.
const AT_ONCE: &str = "SET statement_timeout = '10 s'; SET lock_timeout = '5 s'";

#[tokio::test(flavor = "multi_thread")]
async fn one_of_sixteen_claims_acquires() {
    let server = Server::migrated().await;
    let clients = connections(&server, 16).await;
    for round in 0..20 {
        let arguments = format!("'shop', 'k{round}', 'f'");
        let answers = all(&clients, |client| claim(client, &arguments)).await;
        assert_eq!((count(&answers, "acquired"), count(&answers, "in_flight")), (1, 15), "{answers:?}");
    }
    assert_eq!(text(&clients[0], "SELECT count(*) FROM oncegate.records").await, "20");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_sixteen_takes_over() {
    let server = Server::migrated().await;
    let clients = connections(&server, 16).await;
    for round in 0..20 {
        let arguments = format!("'shop', 'k{round}', 'f'");
        let first = claim(&clients[0], &arguments).await;
        end_leases(&clients[0]).await;
        let answers = all(&clients, |client| claim(client, &arguments)).await;
        assert_eq!((count(&answers, "acquired"), count(&answers, "in_flight")), (1, 15), "{answers:?}");
        let taker = answers.iter().find(|answer| answer.outcome == "acquired").unwrap();
        assert_eq!(taker.attempt, Some(2));
        assert!(taker.fence > first.fence);
    }
}

#[tokio::test]
async fn a_claim_beside_one_that_has_not_committed_is_in_flight_at_once() {
    let server = Server::migrated().await;
    let (first, second) = (server.connect().await, server.connect().await);
    run(&second, AT_ONCE).await.unwrap();
    run(&first, "BEGIN").await.unwrap();
    assert_eq!(claim(&first, KEY).await.outcome, "acquired");
    assert_eq!(claim(&second, KEY).await.outcome, "in_flight");
    assert_eq!(claim(&second, "'shop', 'another', 'f'").await.outcome, "acquired");
    run(&first, "ROLLBACK").await.unwrap();
    assert_eq!(claim(&second, KEY).await.outcome, "acquired", "what was rolled back was never there");
}

#[tokio::test]
async fn a_claim_beside_a_completion_that_has_not_committed_is_in_flight_at_once() {
    let server = Server::migrated().await;
    let (worker, repeat) = (server.connect().await, server.connect().await);
    run(&repeat, AT_ONCE).await.unwrap();
    let lease = claim(&worker, KEY).await;
    end_leases(&worker).await;
    run(&worker, "BEGIN").await.unwrap();
    complete(&worker, &lease).await.unwrap();
    assert_eq!(claim(&repeat, KEY).await.outcome, "in_flight", "late is not stale: nobody may take over now");
    run(&worker, "COMMIT").await.unwrap();
    assert_eq!(claim(&repeat, KEY).await.outcome, "completed");
}

#[tokio::test]
async fn a_zombie_cannot_complete_and_its_payment_is_rolled_back() {
    let server = Server::migrated().await;
    let (zombie, taker) = (server.connect().await, server.connect().await);
    run(&zombie, "CREATE TABLE payments (by text)").await.unwrap();
    let first = claim(&zombie, KEY).await;
    end_leases(&taker).await;
    run(&zombie, "BEGIN; INSERT INTO payments VALUES ('zombie')").await.unwrap();
    let second = claim(&taker, KEY).await;
    assert_eq!(second.attempt, Some(2));
    assert_eq!(code(complete(&zombie, &first).await), "OG001");
    run(&zombie, "COMMIT").await.unwrap(); // of a transaction that has failed: it rolls back
    run(&taker, "BEGIN; INSERT INTO payments VALUES ('taker')").await.unwrap();
    complete(&taker, &second).await.unwrap();
    run(&taker, "COMMIT").await.unwrap();
    assert_eq!(code(complete(&zombie, &first).await), "OG001", "nor after the taker completed");
    assert_eq!(text(&taker, "SELECT string_agg(by, ' ') FROM payments").await, "taker");
    assert_eq!(claim(&zombie, KEY).await.status, Some(201));
}

async fn pay(client: &Client, lease: &Answer) -> Result<(), Error> {
    run(client, "BEGIN; INSERT INTO payments VALUES (1)").await?;
    let completed = complete(client, lease).await;
    run(client, "COMMIT").await?;
    completed
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fence_delivered_twice_pays_once() {
    let server = Server::migrated().await;
    let clients = connections(&server, 4).await;
    run(&clients[0], "CREATE TABLE payments (amount int)").await.unwrap();
    for round in 1..=20 {
        let lease = claim(&clients[0], &format!("'shop', 'k{round}', 'f'")).await;
        let paid = join_all(clients.iter().map(|client| pay(client, &lease))).await;
        let (done, refused): (Vec<_>, Vec<_>) = paid.into_iter().partition(Result::is_ok);
        assert_eq!(done.len(), 1);
        refused.into_iter().for_each(|refused| assert_eq!(code(refused), "OG001"));
        assert_eq!(text(&clients[0], "SELECT count(*) FROM payments").await, round.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_lets_one_repeat_execute() {
    let server = Server::migrated().await;
    let clients = connections(&server, 16).await;
    for round in 0..10 {
        let arguments = format!("'shop', 'k{round}', 'f'");
        let lease = claim(&clients[0], &arguments).await;
        let release = format!("SELECT oncegate.release({})", lease.names());
        let (released, answers) =
            tokio::join!(text(&clients[0], &release), all(&clients[1..], |client| claim(client, &arguments)));
        assert_eq!(released, "true");
        let acquired = count(&answers, "acquired");
        assert!(acquired <= 1, "{answers:?}");
        assert_eq!(acquired + count(&answers, "in_flight"), 15);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_entries_exclude_each_other() {
    let server = Server::migrated().await;
    let (claimer, enterer) = (server.connect().await, server.connect().await);
    run(&claimer, AT_ONCE).await.unwrap();
    run(&enterer, "BEGIN").await.unwrap();
    let entered = ask(&enterer, "enter", KEY).await.unwrap();
    assert_eq!(entered.outcome, "acquired");
    assert_eq!(claim(&claimer, KEY).await.outcome, "in_flight");
    complete(&enterer, &entered).await.unwrap();
    run(&enterer, "COMMIT").await.unwrap();
    assert_eq!(claim(&claimer, KEY).await.outcome, "completed");
}

/// A repeat that pays if it takes over.
async fn repeat(client: &Client, arguments: &str) -> Answer {
    let answer = claim(client, arguments).await;
    if answer.outcome == "acquired" {
        pay(client, &answer).await.unwrap();
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn either_a_late_worker_pays_or_whoever_took_over() {
    let server = Server::migrated().await;
    let (late, taker) = (server.connect().await, server.connect().await);
    run(&late, "CREATE TABLE payments (amount int)").await.unwrap();
    let (mut fenced, mut in_time) = (0, 0);
    for round in 1..=100 {
        let arguments = format!("'shop', 'k{round}', 'f'");
        let lease = claim(&late, &arguments).await;
        end_leases(&late).await;
        let (paid, repeated) = tokio::join!(pay(&late, &lease), repeat(&taker, &arguments));
        match paid {
            Ok(()) => {
                in_time += 1;
                assert!(["completed", "in_flight"].contains(&&*repeated.outcome), "{repeated:?}");
            }
            Err(error) => {
                fenced += 1;
                assert_eq!(code(Err::<(), _>(error)), "OG001");
                assert_eq!(repeated.attempt, Some(2));
            }
        }
        assert_eq!(text(&late, "SELECT count(*) FROM payments").await, round.to_string());
        assert_eq!(claim(&taker, &arguments).await.outcome, "completed");
    }
    eprintln!("{in_time} were in time, {fenced} were fenced off");
}
