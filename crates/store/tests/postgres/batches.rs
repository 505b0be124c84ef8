//! Group commit, and that verbs in one batch do not depend on each other.

use std::sync::Arc;

use oncegate_core::{Claim, ClaimRequest, ErrorKind, Store, StoredResponse, Written};
use oncegate_store::postgres::Options;
use tokio_postgres::Client;

use crate::{
    fixture::{Place, acquire, request, response, uuid},
    locks::has_seen_a_deadlock,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_that_wait_together_are_committed_together() {
    let place = Place::start(&[]).await;
    let store = Arc::new(place.open());
    let claim = |number: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { acquire(&store, &request(&format!("k{number}"))).await })
    };
    for task in (0..200).map(claim).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let client = place.connect().await;
    let sql = "SELECT count(DISTINCT xmin::text), count(*) FROM oncegate.records";
    let row = client.query_one(sql, &[]).await.unwrap();
    let (transactions, records): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(records, 200);
    assert!(transactions <= 50, "{transactions} transactions for 200 claims");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_poisoned_verb_fails_alone() {
    let place = Place::start(&[]).await;
    let mut options = Options::default();
    options.lanes = 1;
    let store = Arc::new(place.open_with(options));
    let mut leases = Vec::new();
    for number in 0..40 {
        leases.push(acquire(&store, &request(&format!("k{number}"))).await);
    }
    let poison = 17;
    let complete = |(number, lease): (usize, oncegate_core::Lease)| {
        let store = Arc::clone(&store);
        // `jsonb` cannot hold the NUL of this name, which HTTP does not allow either.
        let headers = vec![("x\0y".to_owned(), "z".into())];
        let response = if number == poison { StoredResponse { headers, ..response(b"") } } else { response(b"fine") };
        tokio::spawn(async move { store.complete(&lease, &response).await })
    };
    let tasks: Vec<_> = leases.into_iter().enumerate().map(complete).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.unwrap() {
            Ok(written) => assert!(written == Written::Done && number != poison, "{number}"),
            Err(error) => assert!(error.kind() == ErrorKind::Unavailable && number == poison, "{number}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_queue_refuses_at_once() {
    let place = Place::start(&[]).await;
    let mut options = Options::default();
    (options.lanes, options.queue_max) = (1, 8);
    let store = Arc::new(place.open_with(options));
    acquire(&store, &request("first")).await;
    let client = place.connect().await;
    client.batch_execute("BEGIN; LOCK TABLE oncegate.records").await.unwrap();
    let claim = |number: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.claim(&request(&format!("k{number}"))).await })
    };
    let tasks: Vec<_> = (0..40).map(claim).collect();
    let mut refused = 0;
    for task in tasks {
        refused += usize::from(task.await.unwrap().is_err_and(|error| error.kind() == ErrorKind::Overloaded));
    }
    assert!(refused > 0);
    client.batch_execute("ROLLBACK").await.unwrap();
    acquire(&store, &request("last")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_connection_loses_no_claim_and_no_completion() {
    let place = Place::start(&[]).await;
    let store = Arc::new(place.open());
    let client = place.connect().await;
    let cycle = |number: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let request = request(&format!("k{number}"));
            let lease = match store.claim(&request).await {
                Ok(Claim::Acquired(lease)) => lease,
                Ok(other) => panic!("{other:?}"),
                // Whether it was applied is open; nobody executes.
                Err(error) => return assert_eq!(error.kind(), ErrorKind::Unavailable),
            };
            // A completion is sent until it is stored.
            loop {
                match store.complete(&lease, &response(b"done")).await {
                    Ok(written) => return assert_eq!(written, Written::Done),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
                }
            }
        })
    };
    for round in 0..20 {
        let tasks: Vec<_> = (0..20).map(|number| cycle(round * 20 + number)).collect();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'oncegate'";
        client.execute(end, &[]).await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    }
    let sql = "SELECT count(*) FROM oncegate.records r WHERE state = 'completed' AND NOT EXISTS (SELECT FROM \
               oncegate.responses p WHERE (p.record, p.fence) = (r.record, r.fence))";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Writes a record beside the lock that claims take.
async fn insert(client: &Client, request: &ClaimRequest) {
    let sql = "INSERT INTO oncegate.records (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, \
               state, fence, attempt, lease, retention, created_at, lease_until, expires_at) VALUES ($1, '', $2, \
               'POST /', 'bare', '\\x07', 'plain', 'unknown', 'in_flight', nextval('oncegate.fences'), 1, '30 s', '24 h', \
               now(), now() + '30 s', now() + '24 h')";
    client.execute(sql, &[&uuid(request), &request.id.key().as_str()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_insert_beside_the_try_lock_stops_only_its_own_key() {
    let place = Place::start(&[]).await;
    let mut options = Options::default();
    options.lanes = 1;
    let store = Arc::new(place.open_with(options));
    let foreign = place.connect().await;
    foreign.batch_execute("BEGIN").await.unwrap();
    insert(&foreign, &request("k7")).await;
    let claim = |number: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.claim(&request(&format!("k{number}"))).await })
    };
    for (number, task) in (0..40).map(claim).collect::<Vec<_>>().into_iter().enumerate() {
        match task.await.unwrap() {
            Ok(Claim::Acquired(_)) => assert_ne!(number, 7),
            other => assert!(number == 7 && other.is_err(), "{number}: {other:?}"),
        }
    }
    foreign.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(store.claim(&request("k7")).await, Ok(Claim::InFlight { .. })));
}

/// On one thread, so that both claims are asked for together.
#[tokio::test]
async fn a_batch_that_is_ended_for_the_sake_of_a_foreign_transaction_is_asked_again() {
    let place = Place::start(&["deadlock_timeout=100ms"]).await;
    let mut options = Options::default();
    options.lanes = 1;
    let store = place.open_with(options);
    let (foreign, observer) = (place.connect().await, place.connect().await);
    // It is never the one that is ended.
    foreign.batch_execute("SET deadlock_timeout = '1 min'").await.unwrap();
    acquire(&store, &request("warm")).await;
    for round in 0..50 {
        let mut both = [0, 1].map(|number| request(&format!("k{round}-{number}")));
        both.sort_by_key(uuid);
        let [first, second] = both;
        foreign.batch_execute("BEGIN").await.unwrap();
        insert(&foreign, &second).await;
        let circle = async {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            while observer.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
            insert(&foreign, &first).await;
            foreign.batch_execute("ROLLBACK").await.unwrap();
        };
        let (one, other, ()) = tokio::join!(store.claim(&first), store.claim(&second), circle);
        if has_seen_a_deadlock(&observer).await {
            assert!(
                matches!(one, Ok(Claim::Acquired(_))) && matches!(other, Ok(Claim::Acquired(_))),
                "{one:?}, {other:?}"
            );
            return;
        }
    }
    panic!("the server never found that they wait for each other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_rolled_back_again_and_again_is_not_in_flight() {
    let place = Place::start(&[]).await;
    let conflict = "CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN RAISE EXCEPTION 'others came first' USING ERRCODE = '40001'; END $$;
                    CREATE TRIGGER conflict BEFORE INSERT ON oncegate.records FOR EACH ROW EXECUTE FUNCTION conflict()";
    place.connect().await.batch_execute(conflict).await.unwrap();
    let error = place.open().claim(&request("k")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.is_unapplied(), "nobody executes: {error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_on_disk_before_it_is_answered() {
    for (server, expected) in [("off", "on"), ("remote_write", "remote_write"), ("on", "on")] {
        let place = Place::start(&[&format!("synchronous_commit={server}"), "statement_timeout=60s"]).await;
        let client = place.connect().await;
        let planned = "BEGIN; SELECT oncegate.extend_batch('0', '{}', '{}', '{}', '{}')";
        for begin in [include_str!("../../src/postgres/begin.sql"), planned] {
            client.batch_execute(begin).await.unwrap();
            let setting: String = client.query_one("SHOW synchronous_commit", &[]).await.unwrap().get(0);
            assert_eq!(setting, expected);
            let setting: String = client.query_one("SHOW statement_timeout", &[]).await.unwrap().get(0);
            assert_eq!(setting, "0");
            client.batch_execute("ROLLBACK").await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_primary_key_is_the_digest() {
    let place = Place::start(&[]).await;
    let (store, wanted) = (place.open(), request("k"));
    acquire(&store, &wanted).await;
    let sql = "SELECT count(*) FROM oncegate.records WHERE record = $1 AND key = 'k' AND scope = ''";
    assert_eq!(place.connect().await.query_one(sql, &[&uuid(&wanted)]).await.unwrap().get::<_, i64>(0), 1);
}
