//! What a claim answers, one connection at a time.

use crate::{
    answer::{Answer, KEY, claim, code, complete, end_leases, expire, run, text, try_claim},
    server::Server,
};

#[tokio::test]
async fn a_new_key_is_acquired_and_a_repeat_is_in_flight() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let first = claim(&client, KEY).await;
    assert_eq!((&*first.outcome, first.attempt), ("acquired", Some(1)));
    let repeat = claim(&client, KEY).await;
    let in_flight = Answer { outcome: "in_flight".into(), record: first.record.clone(), ..Answer::default() };
    assert_eq!(repeat, in_flight, "and a fence is told to nobody else");
    let left = "SELECT retry_after BETWEEN interval '20 s' AND interval '30 s' FROM oncegate.claim('shop', 'k', 'f')";
    assert_eq!(text(&client, left).await, "true");
}

#[tokio::test]
async fn another_request_is_a_mismatch_in_every_state() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    let other = "'shop', 'k', 'g'";
    assert_eq!(claim(&client, other).await.outcome, "mismatch", "in flight");
    end_leases(&client).await;
    assert_eq!(claim(&client, other).await.outcome, "mismatch", "abandoned");
    run(&client, &format!("SELECT oncegate.doubt({}, 'reset')", lease.names())).await.unwrap();
    assert_eq!(claim(&client, other).await.outcome, "mismatch", "unknown");
    complete(&client, &lease).await.unwrap();
    assert_eq!(claim(&client, other).await.outcome, "mismatch", "completed");
}

#[tokio::test]
async fn fingerprints_of_other_rules_say_nothing_about_each_other() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let made =
        |rules: &str, hash: &str| format!("'shop', 'k', decode(repeat('{rules}', 9) || repeat('{hash}', 32), 'hex')");
    assert_eq!(claim(&client, &made("01", "aa")).await.outcome, "acquired");
    assert_eq!(claim(&client, &made("01", "aa")).await.outcome, "in_flight");
    assert_eq!(claim(&client, &made("01", "bb")).await.outcome, "mismatch");
    assert_eq!(claim(&client, &made("02", "aa")).await.outcome, "rules_changed");
    assert_eq!(claim(&client, "'shop', 'k', 'opaque'").await.outcome, "rules_changed");
}

#[tokio::test]
async fn a_completed_record_is_replayed_as_it_was_stored() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for (key, body, expected) in [("a", "'paid'", Some(&b"paid"[..])), ("b", "''", Some(b"")), ("c", "NULL", None)] {
        let arguments = format!("'shop', '{key}', 'f'");
        let lease = claim(&client, &arguments).await;
        let headers = r#"[["link", "<a>"], ["link", "é"]]"#;
        run(&client, &format!("SELECT oncegate.complete({}, 201, '{headers}', {body})", lease.names())).await.unwrap();
        let replay = claim(&client, &arguments).await;
        assert_eq!((&*replay.outcome, replay.status), ("completed", Some(201)));
        assert_eq!((replay.headers.as_deref(), replay.body.as_deref()), (Some(headers), expected));
        let times = format!(
            "SELECT completed_at <= clock_timestamp() AND expires_in > interval '23 h' FROM oncegate.claim({arguments})"
        );
        assert_eq!(text(&client, &times).await, "true");
    }
}

#[tokio::test]
async fn an_abandoned_record_is_taken_over_with_a_longer_lease() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let first = claim(&client, "'shop', 'k', 'f', operation => 'POST /a'").await;
    end_leases(&client).await;
    let second = claim(&client, "'shop', 'k', 'f', operation => 'POST /b'").await;
    assert_eq!((&*second.outcome, second.attempt), ("acquired", Some(2)));
    assert!(second.fence > first.fence);
    let kept = "SELECT operation || ' ' || lease || ' ' || (lease_until > clock_timestamp() + interval '50 s')
                FROM oncegate.records";
    assert_eq!(text(&client, kept).await, "POST /a 00:01:00 true");
}

#[tokio::test]
async fn the_fifth_worker_that_dies_is_the_last() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for attempt in 1..=5 {
        let lease = claim(&client, KEY).await;
        assert_eq!((&*lease.outcome, lease.attempt), ("acquired", Some(attempt)));
        end_leases(&client).await;
    }
    assert_eq!(claim(&client, KEY).await.outcome, "unknown");
    assert_eq!(text(&client, "SELECT doubt_reason FROM oncegate.records").await, "attempts exhausted");
}

#[tokio::test]
async fn a_takeover_needs_the_word_of_the_record_and_of_the_claim() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let unknown = ", on_abandoned => 'unknown'";
    for (key, first, second) in [("a", unknown, ""), ("b", "", unknown)] {
        claim(&client, &format!("'shop', '{key}', 'f'{first}")).await;
        end_leases(&client).await;
        let repeat = claim(&client, &format!("'shop', '{key}', 'f'{second}")).await;
        assert_eq!(repeat.outcome, "unknown");
        let reason = format!("SELECT doubt_reason FROM oncegate.records WHERE key = '{key}'");
        assert_eq!(text(&client, &reason).await, "worker died");
        assert_eq!(claim(&client, &format!("'shop', '{key}', 'f'")).await.outcome, "unknown");
    }
}

#[tokio::test]
async fn a_claim_sent_again_recognises_its_own_row() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let by = |owner: u8| format!("'shop', 'k', 'f', owner => '00000000-0000-0000-0000-00000000000{owner}'");
    let first = claim(&client, &by(1)).await;
    assert_eq!(claim(&client, &by(1)).await, first);
    assert_eq!(claim(&client, &by(2)).await.outcome, "in_flight");
    assert_eq!(claim(&client, KEY).await.outcome, "in_flight", "no owner is nobody's");
    end_leases(&client).await;
    let again = claim(&client, &by(1)).await;
    assert_eq!(again.attempt, Some(1), "nothing was sent, so this is no takeover");
    assert!(again.fence > first.fence);
}

#[tokio::test]
async fn an_expired_record_is_absent_for_every_verb() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    expire(&client).await;
    for verb in ["extend({}, '30 s')", "release({})", "doubt({}, 'reset')", "purge({}, 'why')"] {
        let call = format!("SELECT oncegate.{}", verb.replace("{}", &lease.names()));
        assert_eq!(text(&client, &call).await, "false", "{verb}");
    }
    assert_eq!(code(complete(&client, &lease).await), "OG001");
    let next = claim(&client, "'shop', 'k', 'other'").await;
    assert_eq!((&*next.outcome, next.attempt), ("acquired", Some(1)), "the key is new, for another request too");
    assert!(next.fence > lease.fence);
}

#[tokio::test]
async fn a_new_life_drops_the_response_of_the_old_one() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let lease = claim(&client, KEY).await;
    complete(&client, &lease).await.unwrap();
    expire(&client).await;
    assert_eq!(claim(&client, KEY).await.outcome, "acquired");
    let rows = "SELECT count(*) || ' ' || (SELECT count(*) FROM oncegate.responses) FROM oncegate.records";
    assert_eq!(text(&client, rows).await, "1 0");
    assert_eq!(claim(&client, KEY).await.outcome, "in_flight");
}

#[tokio::test]
async fn repeats_write_nothing() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for (key, then) in [("a", ""), ("b", "complete(:, 201, '[]', 'paid')"), ("c", "doubt(:, 'reset')")] {
        let arguments = format!("'shop', '{key}', 'f'");
        let lease = claim(&client, &arguments).await;
        if !then.is_empty() {
            run(&client, &format!("SELECT oncegate.{}", then.replace(':', &lease.names()))).await.unwrap();
        }
        let row = format!("SELECT xmin || ' ' || xmax || ' ' || ctid FROM oncegate.records WHERE key = '{key}'");
        let before = text(&client, &row).await;
        for request in [&*arguments, &format!("'shop', '{key}', 'other'")] {
            run(&client, "BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
            assert_ne!(try_claim(&client, request).await.unwrap().outcome, "acquired");
            assert_eq!(text(&client, &format!("SELECT fence FROM oncegate.enter_new({request})")).await, "NULL");
            assert_eq!(text(&client, "pg_current_xact_id_if_assigned()").await, "NULL", "{key}: it took a number");
            let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";
            assert_eq!(text(&client, locks).await, "0", "{key}: it took a lock");
            run(&client, "COMMIT").await.unwrap();
        }
        assert_eq!(text(&client, &row).await, before, "{key}");
    }
}
