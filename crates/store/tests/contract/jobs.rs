//! What operators and jobs call, and what people look at.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::{
    answer::{KEY, claim, code, complete, end_leases, expire, run, text},
    server::Server,
};

/// Lets pass after pass reap until so many records are deleted or unknown, and no more; what is a second young is not
/// looked at yet.
pub(crate) async fn reaped(client: &Client, rows: u32, wanted: u32) -> Vec<u32> {
    let (deadline, mut passes) = (Instant::now() + Duration::from_secs(60), Vec::new());
    while passes.iter().sum::<u32>() < wanted {
        assert!(Instant::now() < deadline, "{passes:?} were reaped");
        passes.push(text(client, &format!("oncegate.reap({rows})")).await.parse().unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(passes.iter().sum::<u32>(), wanted);
    passes
}

#[tokio::test]
async fn a_purge_is_noted_with_who_and_why() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, "'shop', 'k', 'f', operation => 'POST /pay'").await;
    let purge = |reason: &str| format!("SELECT oncegate.purge({}, '{reason}')", lease.names());
    assert_eq!(text(&client, &purge("too early")).await, "false", "its lease is live");
    complete(&client, &lease).await.unwrap();
    assert_eq!(code(run(&client, &purge("")).await), "23514", "a reason is given");
    assert_eq!(text(&client, &purge("wrong amount")).await, "true");
    assert_eq!(text(&client, &purge("again")).await, "false");
    let noted =
        "SELECT string_agg(concat_ws('|', verb, operation, state, operator, reason, forced), ' ') FROM oncegate.audit";
    assert_eq!(text(&client, noted).await, "purge|POST /pay|completed|postgres|wrong amount|f");
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.responses").await, "0");
    assert_eq!(claim(&client, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn an_unknown_record_that_is_purged_was_released() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    run(&client, &format!("SELECT oncegate.doubt({}, 'reset')", lease.names())).await.unwrap();
    let purge = format!("SELECT oncegate.purge({}, 'nothing was paid')", lease.names());
    assert_eq!(text(&client, &purge).await, "true");
    assert_eq!(text(&client, "SELECT verb || ' ' || state FROM oncegate.audit").await, "release unknown");
    assert_eq!(claim(&client, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn what_has_expired_is_reaped_with_its_response() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for key in 0..10 {
        let lease = claim(&client, &format!("'shop', 'k{key}', 'f'")).await;
        complete(&client, &lease).await.unwrap();
    }
    assert_eq!(text(&client, "oncegate.reap(100)").await, "0");
    expire(&client).await;
    let lease = claim(&client, "'shop', 'living', 'f'").await;
    complete(&client, &lease).await.unwrap();
    let passes = reaped(&client, 4, 10).await;
    assert!(passes.iter().all(|count| *count <= 4), "{passes:?}");
    assert_eq!(text(&client, "oncegate.reap(100)").await, "0");
    let left = "SELECT count(*) || ' ' || (SELECT count(*) FROM oncegate.responses) FROM oncegate.records";
    assert_eq!(text(&client, left).await, "1 1");
}

#[tokio::test]
async fn small_batches_come_to_every_record() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for key in 0..30 {
        let rule = if key == 20 { "unknown" } else { "takeover" };
        claim(&client, &format!("'shop', 'k{key}', 'f', on_abandoned => '{rule}'")).await;
    }
    // All born at one moment, as in a batch.
    run(&client, "UPDATE oncegate.records SET created_at = statement_timestamp()").await.unwrap();
    end_leases(&client).await;
    reaped(&client, 3, 1).await;
    let unknown = "SELECT string_agg(key || ' ' || doubt_reason, ' ') FROM oncegate.records WHERE state = 'unknown'";
    assert_eq!(text(&client, unknown).await, "k20 worker died");
}

#[tokio::test]
async fn one_of_many_instances_reaps_and_rows_in_use_wait() {
    let server = Server::migrated().await;
    let (first, second) = (server.connect().await, server.connect().await);
    run(&second, "SET lock_timeout = '5 s'").await.unwrap();
    claim(&first, "'shop', 'a', 'f'").await;
    claim(&first, "'shop', 'b', 'f'").await;
    expire(&first).await;
    run(&first, "BEGIN; SELECT FROM oncegate.records WHERE key = 'a' FOR UPDATE").await.unwrap();
    reaped(&second, 100, 1).await;
    run(&first, "COMMIT; BEGIN; SELECT oncegate.reap(1)").await.unwrap();
    assert_eq!(text(&second, "oncegate.reap(100)").await, "0", "another instance reaps");
    run(&first, "COMMIT").await.unwrap();
    assert_eq!(code(run(&first, "SELECT oncegate.reap(0)").await), "22023");
}

#[tokio::test]
async fn the_views_show_abandoned_records_and_suspected_duplicates() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    claim(&client, KEY).await;
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.abandoned").await, "0");
    end_leases(&client).await;
    let abandoned = "SELECT key || ' ' || (since > interval '0') FROM oncegate.abandoned";
    assert_eq!(text(&client, abandoned).await, "k true");
    claim(&client, "'shop', 'other', 'another request'").await;
    claim(&client, "'another caller', 'k', 'f'").await;
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.suspected").await, "0");
    claim(&client, "'shop', 'k2', 'f'").await;
    let suspected = "SELECT earlier_key || ' ' || key || ' ' || (apart < interval '1 min') FROM oncegate.suspected";
    assert_eq!(text(&client, suspected).await, "k k2 true");
    run(&client, "UPDATE oncegate.records SET created_at = created_at - interval '11 min' WHERE key = 'k'")
        .await
        .unwrap();
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.suspected").await, "0");
}

#[tokio::test]
async fn entries_of_the_audit_are_never_changed() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    complete(&client, &lease).await.unwrap();
    run(&client, &format!("SELECT oncegate.purge({}, 'why')", lease.names())).await.unwrap();
    assert_eq!(code(run(&client, "UPDATE oncegate.audit SET reason = 'other'").await), "P0001");
}
