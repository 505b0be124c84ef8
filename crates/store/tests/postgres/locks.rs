//! Nothing waits for a foreign transaction, and what it holds is neither called stale nor taken.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use oncegate_core::{Claim, ClaimRequest, ErrorKind, Lease, Policy, Store, Written};
use oncegate_store::postgres::PostgresStore;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use crate::fixture::{PATIENCE, Place, acquire, repeat, request, response};

/// How a foreign transaction keeps a record: locked, completed by a backend, deleted as the reaper does it.
const HOLDS: [&str; 3] = [
    "SELECT FROM oncegate.records WHERE record = $1 AND fence = $2 FOR UPDATE",
    "SELECT oncegate.complete($1, $2, 201, '[]', '')",
    "DELETE FROM oncegate.records WHERE record = $1 AND fence = $2 RETURNING record",
];

/// Keeps a record in a transaction that stays open.
async fn hold(client: &Client, lease: &Lease, how: &str) {
    client.batch_execute("BEGIN").await.unwrap();
    let record = uuid::Uuid::from_bytes(*lease.record.as_bytes());
    assert_eq!(client.query(how, &[&record, &lease.fence.get()]).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_that_is_held_open_delays_no_other() {
    let place = Place::start(&[]).await;
    let store = Arc::new(place.open());
    let (held, foreign) = (request("held"), place.connect().await);
    let lease = acquire(&store, &held).await;
    let mut others = Vec::new();
    for number in 0..50 {
        others.push(acquire(&store, &request(&format!("other{number}"))).await);
    }
    hold(&foreign, &lease, HOLDS[0]).await;
    // In the same batches as the others: it is asked again all the while.
    let waiting = tokio::spawn({
        let (store, lease) = (Arc::clone(&store), lease.clone());
        async move { store.extend(&lease, Duration::from_secs(60)).await }
    });
    let work = others.into_iter().enumerate().map(|(number, lease)| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            assert_eq!(store.extend(&lease, Duration::from_secs(60)).await.unwrap(), Written::Done);
            assert_eq!(store.complete(&lease, &response(b"done")).await.unwrap(), Written::Done);
            acquire(&store, &request(&format!("new{number}"))).await;
        })
    });
    for task in work.collect::<Vec<_>>() {
        timeout(PATIENCE, task).await.expect("the foreign transaction is still open").unwrap();
    }
    foreign.batch_execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Written::Done, "a row that was passed over is not stale");
}

/// Claims, extends and completes new records until then; answers how many verbs it were and what the slowest took.
async fn work(store: Arc<PostgresStore>, worker: usize, until: Instant) -> (usize, Duration) {
    let (mut verbs, mut slowest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let request = request(&format!("worker{worker}-{verbs}"));
        let mut asked = Instant::now();
        let mut took = || slowest = slowest.max(std::mem::replace(&mut asked, Instant::now()).elapsed());
        let lease = acquire(&store, &request).await;
        took();
        assert_eq!(store.extend(&lease, Duration::from_secs(60)).await.unwrap(), Written::Done);
        took();
        assert_eq!(store.complete(&lease, &response(b"done")).await.unwrap(), Written::Done);
        took();
        verbs += 3;
    }
    (verbs, slowest)
}

/// How often a connection of the store was seen waiting for a row.
async fn waits(client: &Client, until: Instant) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oncegate' AND wait_event IN \
               ('transactionid', 'tuple')";
    let mut seen = 0;
    while Instant::now() < until {
        seen += client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_waits_for_a_key_that_is_held_open_for_three_seconds() {
    let place = Place::start(&[]).await;
    let store = Arc::new(place.open());
    let observer = place.connect().await;
    let mut held = Vec::new();
    for (number, how) in HOLDS.into_iter().enumerate() {
        let (request, foreign) = (request(&format!("held{number}")), place.connect().await);
        let lease = acquire(&store, &request).await;
        hold(&foreign, &lease, how).await;
        held.push((request, lease, foreign));
    }
    let until = Instant::now() + Duration::from_secs(3);
    let workers: Vec<_> = (0..16).map(|worker| tokio::spawn(work(Arc::clone(&store), worker, until))).collect();
    // The held records are asked for all the while: by their owners, and by repeats.
    let asking = join_all(held.iter().map(async |(request, lease, _)| {
        while Instant::now() < until {
            let extending = store.extend(lease, Duration::from_secs(60));
            let repeat = repeat(request);
            let (extended, claimed) = tokio::join!(extending, store.claim(&repeat));
            assert_eq!(extended.unwrap_err().kind(), ErrorKind::Unavailable);
            assert!(matches!(claimed.unwrap(), Claim::InFlight { .. }));
        }
    }));
    let (_, waits) = tokio::join!(asking, waits(&observer, until));
    let (mut verbs, mut slowest) = (0, Duration::ZERO);
    for worker in workers {
        let (count, took) = worker.await.unwrap();
        (verbs, slowest) = (verbs + count, slowest.max(took));
    }
    eprintln!("{verbs} verbs of other records while three were held for 3 s; the slowest took {slowest:?}");
    assert!(waits == 0 && verbs > 0, "seen waiting for a row {waits} times, after {verbs} verbs");
    for (_, lease, foreign) in held {
        foreign.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(store.extend(&lease, Duration::from_secs(60)).await.unwrap(), Written::Done);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_of_a_record_that_stays_locked_is_unavailable_and_not_stale() {
    let place = Place::start(&[]).await;
    let (store, held, foreign) = (place.open(), request("held"), place.connect().await);
    let lease = acquire(&store, &held).await;
    hold(&foreign, &lease, HOLDS[0]).await;
    for written in [
        store.extend(&lease, Duration::from_secs(60)).await,
        store.complete(&lease, &response(b"late")).await,
        store.release(&lease).await,
    ] {
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(matches!(store.claim(&repeat(&held)).await, Ok(Claim::InFlight { .. })), "reading needs no lock");
    foreign.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.complete(&lease, &response(b"late")).await.unwrap(), Written::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_whose_claim_is_still_open_elsewhere_is_in_flight() {
    let place = Place::start(&[]).await;
    let (store, wanted, foreign) = (place.open(), request("entered"), place.connect().await);
    foreign.batch_execute("BEGIN").await.unwrap();
    let gate = i64::from_be_bytes(wanted.id.digest().as_bytes()[..8].try_into().unwrap());
    foreign.execute("SELECT pg_advisory_xact_lock($1)", &[&gate]).await.unwrap();
    assert!(matches!(store.claim(&wanted).await, Ok(Claim::InFlight { .. })), "nobody waits for it to end");
    acquire(&store, &request("another")).await;
    foreign.batch_execute("ROLLBACK").await.unwrap();
    acquire(&store, &wanted).await;
}

/// What a look at the row itself, and at the fences that were drawn, shows of any write.
async fn versions(client: &Client) -> Vec<(String, String, String)> {
    let sql = "SELECT xmin::text, xmax::text, ctid::text FROM oncegate.records \
               UNION ALL SELECT last_value::text, log_cnt::text, is_called::text FROM oncegate.fences ORDER BY 1, 2, 3";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repeat_writes_nothing() {
    let place = Place::start(&[]).await;
    let (store, client) = (place.open(), place.connect().await);
    let (running, done) = (request("running"), request("done"));
    acquire(&store, &running).await;
    let lease = acquire(&store, &done).await;
    assert_eq!(store.complete(&lease, &response(b"done")).await.unwrap(), Written::Done);
    let before = versions(&client).await;
    let cold = place.open();
    for store in [&store, &cold] {
        assert!(matches!(store.claim(&repeat(&running)).await, Ok(Claim::InFlight { .. })));
        assert!(matches!(store.claim(&running).await, Ok(Claim::Acquired(_))), "its own claim, recognised");
        assert!(matches!(store.claim(&repeat(&done)).await, Ok(Claim::Completed(_))));
        assert_eq!(store.complete(&lease, &response(b"done")).await.unwrap(), Written::Done, "its own completion");
        assert_eq!(store.release(&lease).await.unwrap(), Written::Stale);
    }
    assert_eq!(versions(&client).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_takers_gets_an_abandoned_record() {
    let place = Place::start(&[]).await;
    let stores: Vec<_> = (0..4).map(|_| Arc::new(place.open())).collect();
    let first = ClaimRequest { policy: Arc::new(Policy::gateway(oncegate_core::Backend::Idempotent)), ..request("k") };
    let stale: Lease = acquire(&stores[0], &first).await;
    place.clock.advance(Duration::from_secs(60));
    let take = |store: &Arc<PostgresStore>| {
        let (store, repeat) = (Arc::clone(store), repeat(&first));
        tokio::spawn(async move { store.claim(&repeat).await.unwrap() })
    };
    let takers: Vec<_> = stores.iter().cycle().take(32).map(take).collect();
    let mut taken = 0;
    for taker in takers {
        match taker.await.unwrap() {
            Claim::Acquired(lease) => {
                assert!(lease.attempt == 2 && lease.fence > stale.fence);
                taken += 1;
            }
            Claim::InFlight { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, 1);
    assert_eq!(stores[0].complete(&stale, &response(b"zombie")).await.unwrap(), Written::Stale);
}

/// Whether the server has ended a transaction for the sake of another.
pub(crate) async fn has_seen_a_deadlock(client: &Client) -> bool {
    let sql = "SELECT pg_read_file(current_setting('data_directory') || '/../log') LIKE '%deadlock detected%'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_of_the_same_records_in_any_order_never_wait_in_a_circle() {
    let place = Place::start(&["deadlock_timeout=10ms"]).await;
    let stores: Vec<_> = (0..4).map(|_| Arc::new(place.open())).collect();
    for round in 0..5 {
        let requests: Vec<_> = (0..64).map(|number| request(&format!("k{round}-{number}"))).collect();
        let work = |(number, store): (usize, &Arc<PostgresStore>)| {
            let (store, mut requests) = (Arc::clone(store), requests.clone());
            if number % 2 == 1 {
                requests.reverse();
            }
            tokio::spawn(async move {
                let claims = join_all(requests.iter().map(|request| store.claim(request))).await;
                let leases = claims.into_iter().map(|claim| match claim.unwrap() {
                    Claim::Acquired(lease) => Some(lease),
                    Claim::InFlight { .. } | Claim::Completed(_) => None,
                    other => panic!("{other:?}"),
                });
                // Each record has many writers, whoever has its lease.
                let leases: Vec<_> = leases.flatten().collect();
                let done = response(b"done");
                let extended = join_all(leases.iter().map(|lease| store.extend(lease, Duration::from_secs(60)))).await;
                let completed = join_all(leases.iter().map(|lease| store.complete(lease, &done))).await;
                assert!(extended.into_iter().chain(completed).all(|written| written.is_ok()));
            })
        };
        for worker in stores.iter().enumerate().map(work).collect::<Vec<_>>() {
            worker.await.unwrap();
        }
    }
    assert!(!has_seen_a_deadlock(&place.connect().await).await);
}
