//! The front lost or stopped with an outbox that is not drained; gateways that die with theirs.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use oncegate_core::{Claim, ClaimRequest, ErrorKind, Lease, Store, Written};
use oncegate_store::tiered::TieredStore;

use super::{
    super::{
        front::{execute, is_replayed, other_body},
        load,
        place::{Place, acquire, until},
    },
    calm, hasty, hold_back, is_in_flight, let_go, long, open, pass_quiet, refuse,
};
use crate::{
    fixture::{repeat, request, response},
    server::Cluster,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_has_in_flight_another_refuses_also_if_the_front_lost_it_or_is_stopped_before_it_is_drained() {
    let place = Place::start().await.with_outbox();
    let mut options = calm();
    options.front_timeout = Duration::from_secs(1);
    let (first, second) = (open(&place, options.clone()).await, open(&place, options).await);
    hold_back(&place).await;
    let (lost, lease) = acquire_one(&first, "lost").await;
    until("it is in flight", async || is_in_flight(&second, &lost).await).await;
    place.flush().await;
    assert!(!is_in_flight(&second, &lost).await, "nobody can tell");
    let_go(&place).await;
    until("it is in flight", async || is_in_flight(&second, &lost).await).await;
    assert_eq!(first.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    assert!(is_replayed(&second, &lost).await);

    pass_quiet(&place).await;
    pass_quiet(&place).await;
    for store in [&first, &second] {
        until("the outbox is open again", async || store.has_outbox()).await;
    }
    hold_back(&place).await;
    let (stopped, lease) = acquire_one(&first, "stopped").await;
    place.redis.lock().await.pause();
    // More than it takes until the front is left alone, and the outbox closed.
    for _ in 0..6 {
        assert!(!is_in_flight(&second, &stopped).await, "nobody can tell");
    }
    assert!(!second.has_outbox());
    let_go(&place).await;
    until("it is in flight", async || is_in_flight(&second, &stopped).await).await;
    assert_eq!(first.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    place.redis.lock().await.resume();
    until("it is replayed", async || is_replayed(&second, &stopped).await).await;
}

/// Acquires one of the keys that begin so: a front that is slow is taken for one that is stopped.
async fn acquire_one(store: &TieredStore, key: &str) -> (ClaimRequest, Lease) {
    for number in 0..10 {
        let request = long(&format!("{key}{number}"));
        if let Ok(Claim::Acquired(lease)) = store.claim(&request).await {
            return (request, lease);
        }
    }
    panic!("no key can be acquired");
}

/// Acquires keys in a gateway that dies then, with all of them in its outbox, the first one completed.
async fn die_with(place: &Place, keys: &[&str]) {
    let (place, keys) = (place.clone(), keys.iter().map(|key| long(key)).collect::<Vec<_>>());
    let dying = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let store = open(&place, calm()).await;
            hold_back(&place).await;
            let mut leases: Vec<Lease> = Vec::new();
            for key in &keys {
                leases.push(acquire(&store, key).await);
            }
            assert_eq!(store.complete(&leases[0], &response(201)).await.unwrap(), Written::Done);
            // Nothing of it ends in good order.
            std::mem::forget(store);
        });
        runtime.shutdown_background();
    });
    dying.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_leaves_that_dies_others_drain_within_ten_seconds() {
    let place = Place::start().await.with_outbox();
    let other = open(&place, calm()).await;
    // Before another database, where nobody knows any of it.
    let beside = place.beside().await;
    let stranger = open(&beside, calm()).await;
    let keys: Vec<_> = (0..40).map(|number| format!("k{number}")).collect();
    die_with(&place, &keys.iter().map(|key| &**key).collect::<Vec<_>>()).await;
    let_go(&place).await;
    until("every effect has its row", async || place.count("records").await == 40).await;
    assert!(is_replayed(&other, &request("k0")).await);
    assert!(matches!(other.claim(&repeat(&request("k1"))).await.unwrap(), Claim::InFlight { .. }));
    until("its outbox is forgotten", async || place.outboxes().await == 2).await;
    assert_eq!(beside.count("records").await, 0);
    acquire(&stranger, &request("k0")).await;
    assert!(other.has_outbox() && stranger.has_outbox(), "neither has taken the other's for its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_leaves_that_dies_is_drained_from_a_cluster_too() {
    let (place, cluster) = (Place::start().await, Cluster::start().await);
    let place = place.behind(&cluster.address()).with_outbox();
    let other = open(&place, calm()).await;
    // So many that several are of one tag.
    let keys: Vec<_> = (0..60).map(|number| format!("k{number}")).collect();
    die_with(&place, &keys.iter().map(|key| &**key).collect::<Vec<_>>()).await;
    let_go(&place).await;
    until("every effect has its row", async || place.count("records").await == 60).await;
    assert_eq!(place.count("responses").await, 1);
    assert!(is_replayed(&other, &request("k0")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_leaves_that_dies_is_drained_while_its_slot_moves() {
    let (place, cluster) = (Place::start().await, Cluster::start().await);
    let place = place.behind(&cluster.address()).with_outbox();
    let other = open(&place, calm()).await;
    let keys: Vec<_> = (0..60).map(|number| format!("k{number}")).collect();
    die_with(&place, &keys.iter().map(|key| &**key).collect::<Vec<_>>()).await;
    let tag = format!("{{{:02x}}}", request("k0").id.digest().as_bytes()[0]);
    let parts = AtomicUsize::new(0);
    // First nothing of it has moved, then all of it, and nobody was told.
    let meanwhile = async || {
        if parts.fetch_add(1, Ordering::Relaxed) == 1 {
            let_go(&place).await;
            until("every effect has its row", async || place.count("records").await == 60).await;
        }
    };
    cluster.move_slot_of(&tag, meanwhile).await;
    assert!(parts.into_inner() > 1);
    assert_eq!(place.count("responses").await, 1);
    assert!(is_replayed(&other, &request("k0")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_of_what_the_dead_have_left_holds_up_nothing_else() {
    let place = Place::start().await.with_outbox();
    let _other = open(&place, calm()).await;
    let keys: Vec<_> = (0..40).map(|number| format!("k{number}")).collect();
    die_with(&place, &keys.iter().map(|key| &**key).collect::<Vec<_>>()).await;
    refuse(&place, "NEW.key IN ('k3', 'k20')").await;
    place.sql("ALTER TABLE oncegate.records ADD CONSTRAINT antidote CHECK (key <> 'k7')").await;
    let_go(&place).await;
    until("the others have their rows", async || place.count("records").await == 37).await;
    until("what can never have one is set aside", async || place.count("poison").await == 1).await;
    assert_eq!(place.outboxes().await, 2, "what is refused is left");
    place.sql("DROP TRIGGER refuse ON oncegate.records").await;
    until("its outbox is forgotten", async || place.outboxes().await == 1).await;
    assert_eq!((place.count("records").await, place.count("poison").await), (39, 1));
}

/// What is documented: the front is lost, and with it what a gateway has acknowledged that died before it was drained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_dies_with_its_gateway_and_with_the_front_is_executed_a_second_time() {
    let place = Place::start().await.with_outbox();
    let other = open(&place, calm()).await;
    let keys: Vec<_> = (0..20).map(|number| format!("k{number}")).collect();
    die_with(&place, &keys.iter().map(|key| &**key).collect::<Vec<_>>()).await;
    place.flush().await;
    let_go(&place).await;
    other.claim(&request("new")).await.unwrap_err();
    pass_quiet(&place).await;
    let mut again = 0;
    for key in &keys {
        acquire(&other, &repeat(&request(key))).await;
        again += 1;
    }
    eprintln!("{again} of {} keys executed again: with their gateway died all that knew of them", keys.len());
    assert_eq!(again, keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_front_that_refuses_writes_for_want_of_replicas_acknowledges_nothing() {
    let place = Place::start().await.with_outbox();
    let (first, second) = (open(&place, calm()).await, open(&place, calm()).await);
    hold_back(&place).await;
    let lease = acquire(&first, &long("before")).await;
    place.tell_redis(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    // It still says so, or nobody can tell.
    is_in_flight(&second, &long("before")).await;
    let_go(&place).await;
    until("it is in flight", async || is_in_flight(&second, &long("before")).await).await;
    until("it completes", async || first.complete(&lease, &response(201)).await.is_ok()).await;
    let new = long("new");
    until("the outbox is closed", async || second.claim(&new).await.is_err() && !second.has_outbox()).await;
    pass_quiet(&place).await;
    until("PostgreSQL takes claims", async || matches!(second.claim(&new).await, Ok(Claim::Acquired(_)))).await;
    assert!(!second.has_outbox());
    assert!(is_in_flight(&first, &new).await);
}

/// What ends by Redis's clock ends too early or too late where that is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_a_front_whose_clock_is_set_forward_or_back_lets_nothing_execute_twice() {
    let place = Place::start().await.with_outbox();
    let ahead = place.ahead(Duration::from_hours(1));
    let (now, then) = (open(&place, calm()).await, open(&ahead, calm()).await);
    hold_back(&place).await;
    let mut leases = Vec::new();
    for (key, before) in [("forward", &now), ("back", &then)] {
        leases.push((key, before, acquire(before, &request(key)).await));
    }
    let_go(&place).await;
    now.drained().await;
    then.drained().await;
    for (key, after) in [("forward", &then), ("back", &now)] {
        until("it is in flight", async || is_in_flight(after, &request(key)).await).await;
    }
    for (key, before, lease) in leases {
        assert_eq!(before.complete(&lease, &response(201)).await.unwrap(), Written::Done);
        for store in [&now, &then] {
            assert!(is_replayed(store, &request(key)).await, "{key}");
        }
    }
    until("both are in PostgreSQL", async || place.count("records").await == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_redis_that_is_killed_again_and_again_before_an_outbox_lets_nothing_execute_twice() {
    load::kill_again_and_again(Place::start().await.with_outbox(), hasty(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_gone_what_an_outbox_has_acknowledged_is_kept() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    let (done, open) = (request("done"), request("open"));
    hold_back(&place).await;
    execute(&store, &done).await;
    let lease = acquire(&store, &open).await;
    place.postgres.stop();
    assert!(is_replayed(&store, &done).await);
    assert_eq!(store.claim(&request("fresh")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    place.postgres.start_again(&[super::super::place::FAST, super::super::place::COUNTING]);
    let place = place.reconnected().await;
    let_go(&place).await;
    until("both have their rows", async || place.count("records").await == 2).await;
    until("it completes", async || store.complete(&lease, &response(201)).await.is_ok()).await;
    until("both are completed", async || place.count("responses").await == 2).await;
    assert!(is_replayed(&store, &open).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c80_a_fresh_store_tells_other_bodies_apart_before_anything_is_drained() {
    let place = Place::start().await.with_outbox();
    let (first, second) = (open(&place, calm()).await, open(&place, calm()).await);
    hold_back(&place).await;
    execute(&first, &request("k")).await;
    for _ in 0..2 {
        assert!(matches!(second.claim(&other_body(&request("k"))).await.unwrap(), Claim::Mismatch(_)));
        assert!(is_replayed(&second, &request("k")).await);
    }
    let_go(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_front_holds_of_the_dead_is_known_to_who_asks_before_it_is_drained() {
    let place = Place::start().await.with_outbox();
    let other = open(&place, calm()).await;
    die_with(&place, &["done", "open"]).await;
    // What is in flight is not believed any more, and its lease goes on.
    place.clock.advance(Duration::from_secs(10));
    let_go(&place).await;
    until("it is in flight", async || is_in_flight(&other, &request("open")).await).await;
    assert!(is_replayed(&other, &request("done")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_left_that_died_is_not_new_after_its_outbox_was_closed_and_the_front_begins_anew() {
    let place = Place::start().await.with_outbox();
    let other = open(&place, calm()).await;
    die_with(&place, &["done", "open"]).await;
    let before = other.generation();
    place.sql("UPDATE oncegate.front SET name = gen_random_uuid()").await;
    until("the front begins anew", async || other.generation().is_some_and(|it| Some(it) != before)).await;
    other.claim(&request("new")).await.unwrap_err();
    pass_quiet(&place).await;
    acquire(&other, &request("new")).await;
    for key in ["done", "open"] {
        assert!(!is_in_flight(&other, &request(key)).await, "nobody can tell");
    }
    let_go(&place).await;
    until("it is in flight", async || is_in_flight(&other, &request("open")).await).await;
    assert!(is_replayed(&other, &request("done")).await);
}

/// The gateways that opened it are gone; the one that comes has never reached the front.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_closed_by_who_never_reached_its_front() {
    let place = Place::start().await.with_outbox();
    drop(open(&place, hasty()).await);
    place.redis.lock().await.kill();
    let store = place.open_with(hasty()).await;
    until("PostgreSQL takes claims", async || store.claim(&request("new")).await.is_ok()).await;
}
