//! What the front answers by itself, and what it must not.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use oncegate_core::{Claim, ClaimRequest, ErrorKind, Fingerprint, Lease, Note, Seen, Store, Written};
use oncegate_store::{
    postgres::{self, PostgresStore},
    tiered::{Options, TieredStore},
};

use super::place::{PATIENCE, Place, acquire, until};
use crate::{
    fixture::{repeat, request, response},
    server::Cluster,
};

/// Claims and completes.
pub(super) async fn execute(store: &TieredStore, request: &ClaimRequest) {
    let lease = acquire(store, request).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
}

pub(super) fn other_body(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { fingerprint: Fingerprint::from_bytes(&[2]).unwrap(), ..repeat(request) }
}

pub(super) async fn is_replayed(store: &TieredStore, request: &ClaimRequest) -> bool {
    match store.claim(&repeat(request)).await.unwrap() {
        Claim::Completed(completed) => *completed.response == response(201),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c80_a_fresh_store_replays_known_keys_and_tells_other_bodies_apart_without_postgresql() {
    let place = Place::start().await;
    let store = place.open().await;
    let requests: Vec<_> = (0..1000).map(|number| request(&format!("k{number}"))).collect();
    join_all(requests.iter().map(|request| execute(&store, request))).await;
    drop(store);
    let fresh = place.open().await;
    place.forget_asked().await;
    for request in &requests {
        assert!(is_replayed(&fresh, request).await);
        assert!(matches!(fresh.claim(&other_body(request)).await.unwrap(), Claim::Mismatch(_)));
        assert!(is_replayed(&fresh, request).await);
    }
    assert_eq!(place.asked("claim_batch").await, 0);

    // Lost, they come back with the first repeat of each.
    place.flush().await;
    for _ in 0..2 {
        assert!(join_all(requests.iter().map(|request| is_replayed(&fresh, request))).await.into_iter().all(|it| it));
    }
    assert_eq!(place.asked("claim_batch").await, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_repeats_is_one_claim_and_one_completion_for_each_key() {
    const KEYS: usize = 4;
    let place = Place::start().await;
    let stores = [Arc::new(place.open().await), Arc::new(place.open().await)];
    // The first statements of a connection take longer, and what is in flight is asked for again after seconds.
    for (number, store) in stores.iter().enumerate() {
        let warm: Vec<_> = (0..8).map(|key| request(&format!("warm{number}-{key}"))).collect();
        join_all(warm.iter().map(|request| execute(store, request))).await;
    }
    place.forget_asked().await;
    let storm = (0..300 * KEYS).map(|number| {
        let (store, key) = (Arc::clone(&stores[number % 2]), format!("k{}", number / 2 % KEYS));
        tokio::spawn(async move {
            match store.claim(&request(&key)).await.unwrap() {
                Claim::Acquired(lease) => {
                    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
                    1
                }
                Claim::InFlight { .. } | Claim::Completed(_) => 0,
                other => panic!("{other:?}"),
            }
        })
    });
    let executed: usize = join_all(storm.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(executed, KEYS);
    assert_eq!(place.asked("claim_batch").await, i64::try_from(KEYS).unwrap());
    assert_eq!(place.asked("complete_batch").await, i64::try_from(KEYS).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_asked_for_is_in_flight_and_is_neither_compared_nor_replayed() {
    let place = Place::start().await;
    let mut hurried = Options::default();
    (hurried.timeout, hurried.front_timeout) = (PATIENCE, PATIENCE);
    hurried.wait = Duration::ZERO;
    let (slow, other) = (Arc::new(place.open().await), place.open_with(hurried).await);
    let first = request("k");
    let gate = gate(&first);
    place.sql(&format!("SELECT pg_advisory_lock({gate})")).await;
    let claiming = tokio::spawn({
        let (slow, first) = (Arc::clone(&slow), first.clone());
        async move { slow.claim(&first).await }
    });
    until("its token is there", async || place.has_token().await || claiming.is_finished()).await;
    loop {
        for claim in [repeat(&first), other_body(&first)] {
            let Claim::InFlight { retry_after } = other.claim(&claim).await.unwrap() else { panic!() };
            // The token's time, by two clocks that were read one after the other.
            assert!(retry_after <= PATIENCE + Duration::from_secs(1), "{retry_after:?}");
        }
        if claiming.is_finished() {
            break;
        }
    }
    // PostgreSQL could not say: nobody waits for this claim any more.
    assert!(matches!(claiming.await.unwrap().unwrap(), Claim::InFlight { .. }));
    place.sql(&format!("SELECT pg_advisory_unlock({gate})")).await;
    until("its token is gone", async || !place.has_token().await).await;
    execute(&other, &other_body(&first)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_stands_in_front_too() {
    let (place, cluster) = (Place::start().await, Cluster::start().await);
    let place = place.behind(&cluster.address());
    let store = place.open().await;
    assert!(store.generation().is_some());
    let requests: Vec<_> = (0..50).map(|number| request(&format!("k{number}"))).collect();
    join_all(requests.iter().map(|request| execute(&store, request))).await;
    let fresh = place.open().await;
    place.forget_asked().await;
    assert!(join_all(requests.iter().map(|request| is_replayed(&fresh, request))).await.into_iter().all(|it| it));
    assert_eq!(place.asked("claim_batch").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_another_scope_and_key_is_not_answered() {
    let place = Place::start().await;
    let (store, key) = (place.open().await, request("k"));
    execute(&store, &key).await;
    // As if another record had the same digest.
    let mut connection = place.redis.lock().await.connect().await;
    let entries: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    redis::cmd("HSET").arg(entry).arg("id").arg("another").exec_async(&mut connection).await.unwrap();
    place.forget_asked().await;
    assert!(is_replayed(&store, &key).await, "by PostgreSQL");
    assert_eq!(place.asked("claim_batch").await, 1);
}

/// What PostgreSQL waits for while it is asked to claim a record that is absent.
fn gate(request: &ClaimRequest) -> i64 {
    let digest = request.id.digest();
    let (first, _) = digest.as_bytes().split_first_chunk().unwrap();
    i64::from_be_bytes(*first)
}

/// Acquires a key for which PostgreSQL is being asked while something else is done. It can be kept waiting for half a second
/// only: where that is too short, as on a busy machine, another key is tried.
async fn acquire_around(
    place: &Place,
    store: &TieredStore,
    new: impl AsyncFn(&str) -> ClaimRequest,
    meanwhile: impl AsyncFn(&ClaimRequest),
) -> (ClaimRequest, Lease) {
    for number in 0..50 {
        let request = new(&format!("k{number}")).await;
        let gate = gate(&request);
        until("nobody asks", async || !place.has_token().await).await;
        place.sql(&format!("SELECT pg_advisory_lock({gate})")).await;
        let is_answered = Cell::new(false);
        let asking = async {
            let claim = store.claim(&request).await.unwrap();
            is_answered.set(true);
            claim
        };
        let doing = async {
            until("its token is there", async || place.has_token().await || is_answered.get()).await;
            meanwhile(&request).await;
            place.sql(&format!("SELECT pg_advisory_unlock({gate})")).await;
        };
        match tokio::join!(asking, doing) {
            (Claim::Acquired(lease), ()) => return (request, lease),
            (Claim::InFlight { .. }, ()) => {}
            (other, ()) => panic!("{other:?}"),
        }
    }
    panic!("it is never kept waiting for as long as that takes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_before_the_front_was_emptied_is_not_kept() {
    let place = Place::start().await;
    let store = place.open().await;
    let (first, lease) = acquire_around(&place, &store, async |key| request(key), async |_| place.flush().await).await;
    assert_eq!(place.entries().await, 0);
    // Nor is what belongs to it.
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    assert_eq!(place.entries().await, 0);
    assert!(is_replayed(&store, &first).await);
    assert_eq!(place.entries().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_before_something_was_written_is_not_kept() {
    let place = Place::start().await;
    let store = place.open().await;
    let purged = async |key: &str| {
        let key = request(key);
        execute(&store, &key).await;
        let (record, _) = store.get(key.id.digest()).await.unwrap().unwrap();
        let note = Note::new("ada", "wrong").unwrap();
        assert_eq!(store.purge(Seen::of(&record), &note).await.unwrap(), Written::Done);
        repeat(&key)
    };
    let read = async |key: &ClaimRequest| assert!(store.get(key.id.digest()).await.unwrap().is_none());
    let (key, _) = acquire_around(&place, &store, purged, read).await;
    place.forget_asked().await;
    assert!(matches!(store.claim(&repeat(&key)).await.unwrap(), Claim::InFlight { .. }));
    assert_eq!(place.asked("claim_batch").await, 1, "the front had nothing to say");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_by_sql_is_seen_within_seconds() {
    let place = Place::start().await;
    let (store, fresh) = (place.open().await, place.open().await);
    let (open, done) = (request("open"), request("done"));
    let lease = acquire(&store, &open).await;
    let complete = format!("SELECT oncegate.complete('{}', {}, 201, '[]', '{{}}')", lease.record, lease.fence);
    place.sql(&complete).await;
    until("a completion by SQL is seen", async || is_replayed(&fresh, &open).await).await;

    execute(&store, &done).await;
    let (record, _) = store.get(done.id.digest()).await.unwrap().unwrap();
    assert!(is_replayed(&fresh, &done).await);
    place.sql(&format!("SELECT oncegate.purge('{}', {}, 'wrong')", done.id.digest(), record.fence)).await;
    until("a purge by SQL is seen", async || !is_replayed(&fresh, &done).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_that_the_front_cannot_be_told_of_is_seen_all_the_same() {
    let place = Place::start().await;
    let (store, purged, kept) = (place.open().await, request("purged"), request("kept"));
    execute(&store, &purged).await;
    execute(&store, &kept).await;
    let (record, _) = store.get(purged.id.digest()).await.unwrap().unwrap();
    place.redis.lock().await.pause();
    // The front has never answered this one.
    let mut hurried = Options::default();
    hurried.front_timeout = Duration::from_millis(50);
    let desk = place.open_with(hurried).await;
    assert_eq!(desk.generation(), None);
    let note = Note::new("ada", "wrong").unwrap();
    assert_eq!(desk.purge(Seen::of(&record), &note).await.unwrap(), Written::Done);
    place.redis.lock().await.resume();
    let mut claim = None;
    until("the purge is seen", async || {
        claim = Some(store.claim(&repeat(&purged)).await.unwrap());
        !matches!(claim, Some(Claim::Completed(_)))
    })
    .await;
    assert!(matches!(claim, Some(Claim::Acquired(_))), "{claim:?}");
    assert!(is_replayed(&store, &kept).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_which_nobody_hears_makes_the_front_void_where_it_cannot_be_told() {
    let place = Place::start().await;
    let (store, purged) = (place.open().await, request("purged"));
    execute(&store, &purged).await;
    let (record, _) = store.get(purged.id.digest()).await.unwrap().unwrap();
    let mut hurried = Options::default();
    hurried.front_timeout = Duration::from_millis(500);
    let desk = place.open_with(hurried).await;
    until("the front is used", async || desk.generation().is_some()).await;
    let before = desk.generation();
    // Nobody can say whether it was deleted.
    let locked = place.postgres.connect().await;
    let lock = format!("BEGIN; SELECT FROM oncegate.records WHERE fence = {} FOR UPDATE", record.fence);
    locked.batch_execute(&lock).await.unwrap();
    place.redis.lock().await.pause();
    let purged = desk.purge(Seen::of(&record), &Note::new("ada", "wrong").unwrap()).await;
    assert_eq!(purged.unwrap_err().kind(), ErrorKind::Unavailable);
    until("what the front held counts no more", async || desk.generation().is_none()).await;
    place.redis.lock().await.resume();
    until("another generation is seen", async || desk.generation().is_some()).await;
    assert_ne!(desk.generation(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_purged_is_not_kept_by_who_reads_it_meanwhile() {
    let place = Place::start().await;
    let (store, key) = (Arc::new(place.open().await), request("k"));
    execute(&store, &key).await;
    let (record, _) = store.get(key.id.digest()).await.unwrap().unwrap();
    // PostgreSQL cannot delete it yet, and can still read it.
    let locked = place.postgres.connect().await;
    let lock = format!("BEGIN; SELECT FROM oncegate.records WHERE fence = {} FOR UPDATE", record.fence);
    locked.batch_execute(&lock).await.unwrap();
    let purging = tokio::spawn({
        let (store, note) = (Arc::clone(&store), Note::new("ada", "wrong").unwrap());
        let deadline = Instant::now() + PATIENCE;
        async move {
            loop {
                match store.purge(Seen::of(&record), &note).await {
                    // PostgreSQL waits for two seconds.
                    Err(error) if error.kind() == ErrorKind::Unavailable && Instant::now() < deadline => {}
                    purged => return purged,
                }
            }
        }
    });
    place.forget_asked().await;
    until("repeats ask PostgreSQL", async || {
        assert!(is_replayed(&store, &key).await);
        place.asked("claim_batch").await >= 3
    })
    .await;
    locked.batch_execute("COMMIT").await.unwrap();
    assert_eq!(purging.await.unwrap().unwrap(), Written::Done);
    assert!(matches!(store.claim(&repeat(&key)).await.unwrap(), Claim::Acquired(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_responses_of_one_lease_the_front_keeps_the_one_that_postgresql_has() {
    let place = Place::start().await;
    let (store, key) = (place.open().await, request("k"));
    let lease = acquire(&store, &key).await;
    // The front has not heard of the first one yet.
    let back = PostgresStore::open(&place.postgres.address().parse().unwrap(), postgres::Options::default());
    assert_eq!(back.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    assert_eq!(store.complete(&lease, &response(202)).await.unwrap(), Written::Done, "it is completed");
    for _ in 0..2 {
        let Claim::Completed(completed) = store.claim(&repeat(&key)).await.unwrap() else { panic!("it is completed") };
        assert_eq!(*completed.response, response(201));
    }
}
