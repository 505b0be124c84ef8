//! What comes from an outbox: the same end in any order, and any number of times.

use std::time::Duration;

use oncegate_core::{Claim, Store};

use crate::fixture::{Place, acquire, repeat, request};

/// The states that one record was acknowledged in: two lives, each claimed and completed; the second completion once more, as
/// its own gateway drains it, which knows that the claim is there.
const STATES: [(i64, &str, bool); 5] = [
    (1, "in_flight", true),
    (1, "completed", true),
    (2, "in_flight", true),
    (2, "completed", true),
    (2, "completed", false),
];

/// Has a batch of one entry applied, and answers the verdict: none where somebody has to ask again. The second life begins when
/// the first one is over.
async fn apply(
    client: &tokio_postgres::Client,
    key: &str,
    (fence, state, is_whole): (i64, &str, bool),
) -> Option<String> {
    let whole = |value: &str| if is_whole { value.to_owned() } else { "NULL".to_owned() };
    let done = |value: &str| if state == "completed" { value.to_owned() } else { "NULL".to_owned() };
    let sql = format!(
        "SELECT min(verdict) FROM oncegate.apply_batch('0 s', ARRAY[md5('{key}')::uuid], ARRAY[1::bigint], \
         ARRAY[{fence}::bigint], ARRAY[md5('{fence}')::uuid], ARRAY['{state}'], ARRAY[{}::timestamptz], \
         ARRAY[now() + '{fence} h'], ARRAY[{}::integer], ARRAY[{}::text], ARRAY[{}::bytea], ARRAY[{}::text], ARRAY[{}::text], \
         ARRAY[{}::text], ARRAY[{}::text], ARRAY[{}::bytea], ARRAY[{}::text], ARRAY[{}::text], ARRAY[{}::interval], \
         ARRAY[{}::interval], ARRAY[{}::timestamptz])",
        done(&format!("(now() + '{fence} h' - interval '30 min')")),
        done(&(200 + fence).to_string()),
        done("'[]'"),
        done("'x'"),
        whole("'s'"),
        whole(&format!("'{key}'")),
        whole("'POST /'"),
        whole("'bare'"),
        whole("'f'"),
        whole("'plain'"),
        whole("'unknown'"),
        whole("'30 s'"),
        whole("'1 h'"),
        whole(&format!("(now() + '{fence} h' - interval '1 h')")),
    );
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    match count {
        0 => vec![Vec::new()],
        _ => orders(count - 1)
            .into_iter()
            .flat_map(|order| {
                (0..count).map(move |place| {
                    let mut order = order.clone();
                    order.insert(place, count - 1);
                    order
                })
            })
            .collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_order_of_its_entries_the_largest_fence_and_rank_are_what_is_left_of_a_record() {
    let place = Place::start(&["fsync=off"]).await;
    let client = place.connect().await;
    for order in orders(STATES.len()) {
        let key = format!("{order:?}");
        // The last one once more: it is sent twice when its answer is lost.
        for index in order.iter().chain(order.last()) {
            let verdict = apply(&client, &key, STATES[*index]).await;
            assert!(verdict.is_some(), "{key}: entry {index} has to be asked again");
        }
    }
    let wrong = "SELECT count(*) FROM oncegate.records r LEFT JOIN oncegate.responses p USING (record, fence)
                 WHERE (r.fence, r.state, r.status, r.attempt) <> (2, 'completed', 202, 1) OR p.body IS NULL";
    assert_eq!(client.query_one(wrong, &[]).await.unwrap().get::<_, i64>(0), 0);
    let counts = "SELECT (SELECT count(*) FROM oncegate.records), (SELECT count(*) FROM oncegate.responses)";
    let counts = client.query_one(counts, &[]).await.unwrap();
    assert_eq!((counts.get::<_, i64>(0), counts.get::<_, i64>(1)), (120, 120));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_taken_over_or_resolved_is_not_changed_by_what_comes_late() {
    let place = Place::start(&["fsync=off"]).await;
    let client = place.connect().await;
    let late = async |key: &str, change: &str| {
        assert_eq!(apply(&client, key, STATES[0]).await.as_deref(), Some("done"));
        client.batch_execute(&format!("{change} WHERE record = md5('{key}')::uuid")).await.unwrap();
        for entry in [STATES[0], STATES[1]] {
            apply(&client, key, entry).await;
        }
        let left = "SELECT fence || ' ' || state FROM oncegate.records WHERE record = md5($1)::uuid";
        client.query_opt(left, &[&key]).await.unwrap().map(|row| row.get::<_, String>(0))
    };
    client
        .batch_execute("INSERT INTO oncegate.front (address, epoch, switched_at) VALUES ('', 1, now())")
        .await
        .unwrap();
    assert_eq!(late("deleted", "DELETE FROM oncegate.records").await, None);
    let taken = late("taken over", "UPDATE oncegate.records SET fence = 9, attempt = 2").await;
    assert_eq!(taken.as_deref(), Some("9 in_flight"));
    let resolved =
        "UPDATE oncegate.records SET state = 'completed', status = 204, completed_at = now(), lease_until = NULL,
                    owner = NULL";
    assert_eq!(late("resolved", resolved).await.as_deref(), Some("1 completed"));
    let status = "SELECT status FROM oncegate.records WHERE record = md5('resolved')::uuid";
    assert_eq!(client.query_one(status, &[]).await.unwrap().get::<_, i32>(0), 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lives_is_not_replaced_by_what_was_new_according_to_another() {
    let place = Place::start(&["fsync=off"]).await;
    let client = place.connect().await;
    assert_eq!(apply(&client, "k", STATES[0]).await.as_deref(), Some("done"));
    assert_eq!(apply(&client, "k", STATES[1]).await.as_deref(), Some("done"));
    client.batch_execute("UPDATE oncegate.records SET expires_at = expires_at + interval '1 h'").await.unwrap();
    for entry in &STATES[2..] {
        assert_eq!(apply(&client, "k", *entry).await.as_deref(), Some("stale"));
    }
    let left = client.query_one("SELECT fence, status FROM oncegate.records", &[]).await.unwrap();
    assert_eq!((left.get::<_, i64>(0), left.get::<_, i32>(1)), (1, 201));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_an_outbox_is_open_no_key_begins_a_life_here_and_while_it_is_quiet_none_anywhere() {
    let place = Place::start(&["fsync=off"]).await;
    let (client, store) = (place.connect().await, place.open());
    let known = request("known");
    acquire(&store, &known).await;
    let switch = async |row: &str| {
        client.batch_execute(&format!("DELETE FROM oncegate.front; INSERT INTO oncegate.front {row}")).await.unwrap();
    };
    for row in [
        "(address, mode, sentinel) VALUES ('', 'outbox', gen_random_uuid())",
        "(address, switched_at, quiet) VALUES ('', now(), '1 h')",
    ] {
        switch(row).await;
        store.claim(&request("new")).await.unwrap_err();
        assert!(matches!(store.claim(&repeat(&known)).await.unwrap(), Claim::InFlight { .. }));
        // An expired record is absent, and begins no life either.
        place.clock.advance(Duration::from_hours(25));
        store.claim(&repeat(&known)).await.unwrap_err();
        switch("(address) VALUES ('')").await;
        acquire(&store, &repeat(&known)).await;
    }
    // Somebody is opening one: a claim does not wait, and does not write.
    client.batch_execute("SELECT pg_advisory_lock(8027507411065663352)").await.unwrap();
    assert!(matches!(store.claim(&request("new")).await.unwrap(), Claim::InFlight { .. }));
    client.batch_execute("SELECT pg_advisory_unlock(8027507411065663352)").await.unwrap();
    acquire(&store, &request("new")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_from_an_outbox_is_found_abandoned_before_the_look_that_goes_round() {
    let place = Place::start(&["fsync=off"]).await;
    let client = place.connect().await;
    let front = "INSERT INTO oncegate.front (address, epoch, quiet) VALUES ('', 1, '4 s')";
    client.batch_execute(front).await.unwrap();
    let doubted = async |ahead: &str| {
        client.batch_execute("UPDATE oncegate.sweep SET round_born = 'infinity'").await.unwrap();
        let pass = format!("SELECT doubted FROM oncegate.reap_pass(10, interval '{ahead}')");
        client.query_one(&pass, &[]).await.unwrap().get::<_, i64>(0)
    };
    apply(&client, "early", STATES[0]).await;
    assert_eq!(doubted("3 s").await, 0);
    apply(&client, "late", STATES[0]).await;
    let earlier = "UPDATE oncegate.records SET created_at = created_at - interval '2 s' WHERE key = 'late'";
    client.batch_execute(earlier).await.unwrap();
    assert_eq!(doubted("40 s").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_opened_once_in_an_epoch_and_the_later_the_sooner_the_last_one_was_closed() {
    let place = Place::start(&["fsync=off"]).await;
    let client = place.connect().await;
    let front =
        "INSERT INTO oncegate.front (address, durability, epoch, quiet, rest) VALUES ('', 'outbox', 2, '4 s', '8 s')";
    client.batch_execute(front).await.unwrap();
    let sentinel = uuid::Uuid::new_v4();
    let opened = async |epoch: i64| {
        let sql = include_str!("../../src/postgres/open_outbox.sql");
        client.query(sql, &[&epoch, &sentinel]).await.unwrap().len()
    };
    let turns = async |epoch: i64| {
        client.query(include_str!("../../src/postgres/take_turn.sql"), &[&epoch]).await.unwrap().len()
    };
    assert_eq!((turns(1).await, turns(2).await, turns(2).await), (0, 1, 0), "one at a time tries");
    client.batch_execute("UPDATE oncegate.front SET turn_until = now() - interval '1 ms'").await.unwrap();
    assert_eq!(turns(2).await, 1, "who takes longer is not waited for");
    assert_eq!((opened(1).await, opened(2).await, opened(2).await), (0, 1, 0));
    let said = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, String>(0);
    client.query(include_str!("../../src/postgres/close_outbox.sql"), &[&sentinel]).await.unwrap();
    let front = "SELECT concat_ws(' ', mode, epoch, switched_at, rest) FROM oncegate.front";
    assert_eq!(said(front).await, "authoritative 4 infinity 00:00:16");
    for (holds, is_moved) in [(false, "t"), (false, "f"), (true, "t")] {
        let before = said("SELECT switched_at::text FROM oncegate.front").await;
        client.query(include_str!("../../src/postgres/keep_quiet.sql"), &[&holds]).await.unwrap();
        let moved = format!("SELECT (switched_at <> '{before}')::text::char(1) FROM oncegate.front");
        assert_eq!(said(&moved).await, is_moved, "{holds}");
    }
    client.batch_execute("UPDATE oncegate.front SET switched_at = now() - interval '1 h'").await.unwrap();
    assert_eq!(opened(4).await, 1);
    client.batch_execute("UPDATE oncegate.front SET switched_at = now() - interval '1 h'").await.unwrap();
    client.query(include_str!("../../src/postgres/close_outbox.sql"), &[&sentinel]).await.unwrap();
    assert_eq!(said(front).await, "authoritative 6 infinity 00:00:08", "it was open for long");
}
