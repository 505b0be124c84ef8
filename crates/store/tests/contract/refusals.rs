//! What is refused, and by which code.

use crate::{
    answer::{KEY, ask, claim, code, complete, run, text, try_claim},
    server::Server,
};

#[tokio::test]
async fn a_snapshot_that_stands_still_is_refused_with_the_way_out() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for function in ["claim", "enter"] {
            run(&client, &format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
            let refused = ask(&client, function, KEY).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "OG002", "{function} under {level}");
            let hint = refused.as_db_error().unwrap().hint().unwrap();
            assert_eq!(hint, "Begin it with BEGIN ISOLATION LEVEL READ COMMITTED.");
            run(&client, "ROLLBACK").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_serializable_by_default_is_told_otherwise() {
    let server = Server::start(&["default_transaction_isolation=serializable"]).await;
    server.migrator().await.migrate().await.unwrap();
    let client = server.connect().await;
    assert_eq!(code(try_claim(&client, KEY).await), "OG002");
    run(&client, "BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let lease = claim(&client, KEY).await;
    run(&client, "COMMIT").await.unwrap();
    complete(&client, &lease).await.unwrap();
    run(&client, "BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
    assert_eq!(claim(&client, KEY).await.outcome, "completed");
}

#[tokio::test]
async fn a_claim_in_a_transaction_that_has_written_is_refused() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "CREATE TABLE payments (amount int)").await.unwrap();
    run(&client, "BEGIN; INSERT INTO payments VALUES (1)").await.unwrap();
    assert_eq!(code(try_claim(&client, KEY).await), "OG003");
    run(&client, "ROLLBACK; BEGIN; SELECT count(*) FROM payments").await.unwrap();
    assert_eq!(claim(&client, KEY).await.outcome, "acquired", "it has only read");
    assert_eq!(code(try_claim(&client, "'shop', 'second', 'f'").await), "OG003", "the claim itself has written");
}

#[tokio::test]
async fn a_transaction_that_cannot_write_is_no_place_to_ask() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    complete(&client, &lease).await.unwrap();
    // As on a standby, which may not know yet what the primary has stored.
    run(&client, "BEGIN READ ONLY").await.unwrap();
    assert_eq!(code(try_claim(&client, KEY).await), "25006");
}

#[tokio::test]
async fn two_records_with_one_digest_are_told_apart() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    complete(&client, &lease).await.unwrap();
    for other in ["scope = 'another'", "scope = 'shop', key = 'another'"] {
        run(&client, &format!("UPDATE oncegate.records SET {other}")).await.unwrap();
        for function in ["claim", "enter"] {
            assert_eq!(code(ask(&client, function, KEY).await), "OG005", "{function}: {other}");
        }
    }
}

#[tokio::test]
async fn records_with_one_lock_cost_each_other_no_more_than_a_repeat() {
    let server = Server::migrated().await;
    let (holder, caller) = (server.connect().await, server.connect().await);
    run(&holder, "BEGIN; SELECT pg_advisory_xact_lock(oncegate.lock_id(oncegate.record_id('shop', 'k')))")
        .await
        .unwrap();
    assert_eq!(claim(&caller, KEY).await.outcome, "in_flight");
    run(&holder, "COMMIT").await.unwrap();
    assert_eq!(claim(&caller, KEY).await.outcome, "acquired");
}

#[tokio::test]
async fn arguments_out_of_range_are_refused_by_name() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for (arguments, word) in [
        ("repeat('s', 1025), 'k', 'f'", "scope has 1025 bytes"),
        ("NULL, 'k', 'f'", "scope"),
        ("'s', '', 'f'", "key has 0 bytes"),
        ("'s', repeat('k', 256), 'f'", "key has 256 bytes"),
        ("'s', 'a b', 'f'", "visible ASCII"),
        ("'s', 'ключ', 'f'", "visible ASCII"),
        ("'s', 'k', ''", "fingerprint of 0 bytes"),
        ("'s', 'k', decode(repeat('aa', 65), 'hex')", "fingerprint of 65 bytes"),
        ("'s', 'k', NULL", "fingerprint"),
        ("'s', 'k', 'f', lease => '99 ms'", "lease length"),
        ("'s', 'k', 'f', lease => '61 min'", "lease length"),
        ("'s', 'k', 'f', lease => NULL", "NULL"),
        ("'s', 'k', 'f', retention => '401 days'", "retention"),
        ("'s', 'k', 'f', retention => '762 days -12 months'", "retention"),
        ("'s', 'k', 'f', retention => '10 s'", "must outlive its lease"),
        ("'s', 'k', 'f', on_abandoned => 'retry'", "on_abandoned"),
    ] {
        let refused = try_claim(&client, arguments).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code().code(), "22023", "{arguments}: {refused}");
        assert!(refused.message().contains(word), "{arguments}: {refused}");
    }
    assert_eq!(text(&client, "SELECT count(*) FROM oncegate.records").await, "0");
}

#[tokio::test]
async fn a_response_that_no_gateway_could_read_is_refused() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    for headers in ["NULL", "'{}'", "'[1]'", r#"'[["a"]]'"#, r#"'[["a", 1]]'"#, r#"'[["a", "b", "c"]]'"#] {
        let call = format!("SELECT oncegate.complete({}, 201, {headers}, '')", lease.names());
        assert_eq!(code(run(&client, &call).await), "22023", "{headers}");
    }
    let call = format!(r#"SELECT oncegate.complete({}, 201, '[["a", "ж"]]', '')"#, lease.names());
    assert_eq!(code(run(&client, &call).await), "22023", "not Latin-1");
    for status in [99, 1000] {
        let call = format!("SELECT oncegate.complete({}, {status}, '[]', '')", lease.names());
        assert_eq!(code(run(&client, &call).await), "23514", "{status}");
    }
    complete(&client, &lease).await.unwrap();
}
