//! The writes after the claim: what they may leave, and under which fence.

use crate::{
    answer::{KEY, claim, code, complete, end_leases, run, text},
    server::Server,
};

#[tokio::test]
async fn a_stale_fence_changes_nothing() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let first = claim(&client, KEY).await;
    end_leases(&client).await;
    claim(&client, KEY).await;
    let row = "SELECT xmin || ' ' || ctid FROM oncegate.records";
    let before = text(&client, row).await;
    for verb in ["extend({}, '30 s')", "release({})", "doubt({}, 'reset')", "purge({}, 'why')"] {
        let call = format!("SELECT oncegate.{}", verb.replace("{}", &first.names()));
        assert_eq!(text(&client, &call).await, "false", "{verb}");
    }
    assert_eq!(code(complete(&client, &first).await), "OG001");
    assert_eq!(text(&client, row).await, before);
}

#[tokio::test]
async fn a_completed_record_is_left_by_no_write_of_its_own_fence() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    complete(&client, &lease).await.unwrap();
    for verb in ["extend({}, '30 s')", "release({})", "doubt({}, 'reset')"] {
        let call = format!("SELECT oncegate.{}", verb.replace("{}", &lease.names()));
        assert_eq!(text(&client, &call).await, "false", "{verb}");
    }
    let refused = complete(&client, &lease).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "OG001");
    assert!(refused.as_db_error().unwrap().message().ends_with("it is completed already"));
    assert_eq!(claim(&client, KEY).await.body.as_deref(), Some(&b"paid"[..]));
}

#[tokio::test]
async fn what_an_application_completes_is_no_owners_success() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let owner = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let lease = claim(&client, &format!("{KEY}, owner => '{owner}'")).await;
    assert_eq!(text(&client, "SELECT owner FROM oncegate.records").await, owner);
    complete(&client, &lease).await.unwrap();
    assert_eq!(text(&client, "SELECT owner FROM oncegate.records").await, "NULL");
}

#[tokio::test]
async fn late_is_not_stale() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    end_leases(&client).await;
    assert_eq!(text(&client, &format!("SELECT oncegate.extend({}, '1 min')", lease.names())).await, "true");
    let extended = "SELECT lease_until > clock_timestamp() + interval '50 s' FROM oncegate.records";
    assert_eq!(text(&client, extended).await, "true");
    assert_eq!(text(&client, &format!("SELECT oncegate.doubt({}, 'reset')", lease.names())).await, "true");
    assert_eq!(claim(&client, KEY).await.outcome, "unknown");
    complete(&client, &lease).await.unwrap();
    assert_eq!(claim(&client, KEY).await.outcome, "completed");
}

#[tokio::test]
async fn what_is_released_is_new() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    let release = format!("SELECT oncegate.release({})", lease.names());
    assert_eq!(text(&client, &release).await, "true");
    assert_eq!(text(&client, &release).await, "false");
    let next = claim(&client, "'shop', 'k', 'another'").await;
    assert_eq!((&*next.outcome, next.attempt), ("acquired", Some(1)));
    assert!(next.fence > lease.fence);
}

#[tokio::test]
async fn a_released_takeover_is_abandoned_again() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let first = claim(&client, KEY).await;
    end_leases(&client).await;
    let second = claim(&client, KEY).await;
    let release = format!("SELECT oncegate.release({})", second.names());
    assert_eq!(text(&client, &release).await, "true");
    assert_eq!(text(&client, &release).await, "false", "its fence is nobody's now");
    for stale in [&first, &second] {
        assert_eq!(code(complete(&client, stale).await), "OG001");
    }
    let left = "SELECT attempt || ' ' || lease || ' ' || (owner IS NULL) || ' ' || state FROM oncegate.records";
    assert_eq!(text(&client, left).await, "1 00:00:30 true in_flight");
    assert_eq!(claim(&client, "'shop', 'k', 'another'").await.outcome, "mismatch");
    assert_eq!(claim(&client, KEY).await.attempt, Some(2));
}

#[tokio::test]
async fn lengths_are_hours_whatever_the_time_zone() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    // Clocks there have moved, and will.
    run(&client, "SET timezone = 'Europe/Berlin'").await.unwrap();
    let lease = claim(&client, "'shop', 'k', 'f', retention => '300 days'").await;
    let kept = "SELECT retention || ' ' || (extract(epoch FROM expires_at - created_at) = 300 * 86400)
                FROM oncegate.records";
    assert_eq!(text(&client, kept).await, "7200:00:00 true");
    let call = format!("SELECT oncegate.complete({}, 201, '[]', '', retention => '2 days')", lease.names());
    run(&client, &call).await.unwrap();
    assert_eq!(text(&client, "SELECT retention FROM oncegate.records").await, "48:00:00");
}

#[tokio::test]
async fn the_claim_itself_is_never_forgotten_by_a_crash() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(&client, "SET synchronous_commit = off; BEGIN").await.unwrap();
    claim(&client, KEY).await;
    assert_eq!(text(&client, "current_setting('synchronous_commit')").await, "on");
    run(&client, "COMMIT").await.unwrap();
    assert_eq!(text(&client, "current_setting('synchronous_commit')").await, "off", "the session's own is back");
}

#[tokio::test]
async fn every_completion_stays_in_its_page() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for key in 0..500 {
        let lease = claim(&client, &format!("'shop', 'k{key}', 'f'")).await;
        complete(&client, &lease).await.unwrap();
    }
    run(&client, "SELECT pg_stat_force_next_flush()").await.unwrap();
    let counted = "SELECT n_tup_upd || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'records'";
    assert_eq!(text(&client, counted).await, "500 500");
}

#[tokio::test]
async fn the_transaction_of_the_effect_may_be_stricter() {
    let server = Server::migrated().await;
    let (worker, taker) = (server.connect().await, server.connect().await);
    for (key, level) in [("a", "REPEATABLE READ"), ("b", "SERIALIZABLE")] {
        let arguments = format!("'shop', '{key}', 'f'");
        let first = claim(&worker, &arguments).await;
        run(&worker, &format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await.unwrap();
        end_leases(&taker).await;
        let second = claim(&taker, &arguments).await;
        // Its snapshot still shows its own fence; what it would overwrite has changed since.
        assert_eq!(code(complete(&worker, &first).await), "40001", "{level}");
        run(&worker, &format!("ROLLBACK; BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        assert_eq!(code(complete(&worker, &first).await), "OG001", "{level}");
        run(&worker, &format!("ROLLBACK; BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        complete(&worker, &second).await.unwrap();
        run(&worker, "COMMIT").await.unwrap();
        assert_eq!(claim(&taker, &arguments).await.outcome, "completed");
    }
}

#[tokio::test]
async fn rows_that_break_an_invariant_are_refused_by_its_name() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    claim(&client, KEY).await;
    for (change, invariant) in [
        ("scope = repeat('s', 1025)", "scope_has_a_limit"),
        ("key = ''", "key_has_a_length"),
        ("fingerprint = ''", "fingerprint_has_a_length"),
        ("spelling = 'loud'", "spelling_is_known"),
        ("backend = 'magic'", "backend_is_known"),
        ("on_abandoned = 'retry'", "on_abandoned_is_known"),
        ("state = 'done', lease_until = NULL", "state_is_known"),
        ("fence = 0", "fence_is_positive"),
        ("attempt = 0", "attempt_counts"),
        ("lease_until = NULL", "in_flight_has_lease"),
        ("state = 'completed', lease_until = NULL, status = 201", "completed_has_time"),
        ("state = 'completed', lease_until = NULL, completed_at = created_at", "completed_has_status"),
        ("state = 'completed', lease_until = NULL, completed_at = created_at, status = 99", "status_is_http"),
        ("state = 'unknown', lease_until = NULL, doubt_reason = 'reset'", "unknown_has_time"),
        ("state = 'unknown', lease_until = NULL, doubted_at = created_at", "unknown_has_reason"),
        ("expires_at = created_at", "record_outlives_lease"),
        ("state = 'completed', lease_until = NULL, completed_at = expires_at, status = 201", "every_state_lives"),
    ] {
        let refused = run(&client, &format!("UPDATE oncegate.records SET {change}")).await.unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.constraint()), ("23514", Some(invariant)), "{change}: {error}");
    }
}
