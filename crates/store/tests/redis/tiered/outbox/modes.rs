//! Who says that a key is new, when that changes, and what cannot be drained.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use oncegate_core::{Backend, Claim, Note, Policy, Seen, Store, StoredResponse, Written};
use oncegate_store::{
    observer::{Event, Observer},
    tiered::{Options, TieredStore},
};

use super::{
    super::{
        front::{execute, is_replayed},
        place::{PATIENCE, Place, acquire, until},
    },
    calm, hasty, hold_back, is_in_flight, let_go, long, open, pass_quiet, refuse,
};
use crate::{
    fixture::{repeat, request, response},
    server::Cluster,
};

/// Counts the answers that came too late.
#[derive(Debug, Default)]
struct Late(AtomicUsize);

impl Observer for Late {
    fn observe(&self, event: &Event) {
        self.0.fetch_add(usize::from(*event == Event::TooLate), Ordering::Relaxed);
    }
}

impl Late {
    fn options(self: &Arc<Self>) -> Options {
        let mut options = calm();
        options.back.observer = Arc::clone(self) as Arc<dyn Observer>;
        options
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_closed_for_all_when_the_front_lost_its_data_and_opened_again() {
    let place = Place::start().await.with_outbox();
    let (first, second) = (open(&place, calm()).await, open(&place, calm()).await);
    place.forget_asked().await;
    execute(&first, &request("before")).await;
    first.drained().await;
    assert_eq!((place.asked("claim_batch").await, place.asked("complete_batch").await), (0, 0));

    place.flush().await;
    first.claim(&request("lost")).await.unwrap_err();
    assert!(!first.has_outbox());
    // It believes that the outbox is open, and is put right.
    second.claim(&request("lost")).await.unwrap_err();
    // However often: PostgreSQL answers, and is not left alone for what it says.
    for number in 0..8 {
        first.claim(&request(&format!("lost{number}"))).await.unwrap_err();
    }
    assert!(is_replayed(&first, &request("before")).await && is_replayed(&second, &request("before")).await);
    pass_quiet(&place).await;
    acquire(&first, &long("lost")).await;
    look(&place, &first).await;
    assert!(!first.has_outbox(), "what the last one held may not be here yet");
    pass_quiet(&place).await;
    for store in [&first, &second] {
        until("the outbox is open again", async || store.has_outbox()).await;
        assert!(is_in_flight(store, &long("lost")).await);
    }
    place.forget_asked().await;
    execute(&second, &request("after")).await;
    assert_eq!(place.asked("claim_batch").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_that_cannot_be_drained_in_time_is_closed_and_new_keys_wait_for_what_it_holds() {
    let place = Place::start().await.with_outbox();
    let mut options = calm();
    options.outbox_limit = Duration::from_millis(500);
    let (first, second) = (open(&place, options.clone()).await, open(&place, options).await);
    hold_back(&place).await;
    acquire(&first, &long("held")).await;
    until("it is closed", async || !first.has_outbox()).await;
    // However long: by itself it would end when twice a half has passed.
    let half = "UPDATE oncegate.front SET switched_at = switched_at - quiet / 2
                WHERE switched_at BETWEEN clock_timestamp() - quiet / 4 AND clock_timestamp()";
    for _ in 0..3 {
        until("new keys have to wait for all of it again", async || place.changed(half).await == 1).await;
        second.claim(&request("new")).await.unwrap_err();
    }
    let_go(&place).await;
    first.drained().await;
    pass_quiet(&place).await;
    acquire(&second, &request("new")).await;
    assert!(is_in_flight(&second, &long("held")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_that_was_started_last_says_whether_there_is_an_outbox() {
    let place = Place::start().await;
    let with = open(&place.clone().with_outbox(), calm()).await;
    acquire(&with, &long("front")).await;
    with.drained().await;
    let without = place.open_with(calm()).await;
    assert!(!without.has_outbox());
    without.claim(&request("back")).await.unwrap_err();
    pass_quiet(&place).await;
    acquire(&without, &long("back")).await;
    until("the other one sees it", async || !with.has_outbox()).await;
    assert!(is_in_flight(&with, &long("back")).await);
    assert!(is_in_flight(&without, &long("front")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c75_a_front_that_may_evict_has_no_outbox() {
    let place = Place::start_with(&["--maxmemory-policy allkeys-lru"]).await.with_outbox();
    let store = place.open_with(calm()).await;
    assert!(store.generation().is_some() && !store.has_outbox());
    place.forget_asked().await;
    acquire(&store, &request("k")).await;
    assert_eq!(place.asked("claim_batch").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_applied_is_set_aside_alone() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    place.sql("ALTER TABLE oncegate.records ADD CONSTRAINT antidote CHECK (key <> 'poison')").await;
    for key in ["k1", "poison", "k2"] {
        acquire(&store, &request(key)).await;
    }
    until("it is set aside", async || place.count("poison").await == 1).await;
    store.drained().await;
    assert_eq!(place.count("records").await, 2);
    // What is in flight is not believed any more, and executed by nobody else all the same.
    place.clock.advance(Duration::from_secs(10));
    store.claim(&repeat(&request("poison"))).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_released_or_purged_does_not_rise_from_a_stream() {
    let place = Place::start().await.with_outbox();
    let (store, other) = (open(&place, calm()).await, open(&place, calm()).await);
    hold_back(&place).await;
    let lease = acquire(&store, &request("released")).await;
    execute(&store, &request("purged")).await;
    let streams = place.streams().await;
    assert_eq!(streams.len(), 3);
    let_go(&place).await;
    store.drained().await;
    let (record, _) = other.get(request("purged").id.digest()).await.unwrap().unwrap();
    assert_eq!(store.release(&lease).await.unwrap(), Written::Done);
    let note = Note::new("ada", "wrong").unwrap();
    assert_eq!(other.purge(Seen::of(&record), &note).await.unwrap(), Written::Done);
    // As if its gateway had died before it took them away.
    place.leave(&streams, "dead").await;
    until("they are drained", async || place.outboxes().await == 2).await;
    assert_eq!(place.count("records").await, 0);
    for key in ["released", "purged"] {
        acquire(&other, &repeat(&request(key))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_has_outboxes_too() {
    let (place, cluster) = (Place::start().await, Cluster::start().await);
    let place = place.behind(&cluster.address()).with_outbox();
    let store = open(&place, calm()).await;
    place.forget_asked().await;
    for number in 0..20 {
        execute(&store, &request(&format!("k{number}"))).await;
    }
    store.drained().await;
    assert_eq!((place.count("responses").await, place.asked("claim_batch").await), (20, 0));
}

/// What all claims share, and whoever opens an outbox has alone.
const CLAIMS: &str = "8027507411065663352";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_opened_after_the_claims_that_have_seen_it_closed() {
    let place = Place::start().await.with_outbox();
    place.sql(&format!("SELECT pg_advisory_lock_shared({CLAIMS})")).await;
    let store = place.open_with(calm()).await;
    assert!(!store.has_outbox());
    acquire(&store, &request("k")).await;
    place
        .sql(&format!("SELECT pg_advisory_unlock_shared({CLAIMS}); UPDATE oncegate.front SET turn_until = now()"))
        .await;
    until("the outbox is open", async || store.has_outbox()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_completes_what_it_was_asked_of_before_and_what_it_would_know_of_too_late() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    let (extended, late) = (acquire(&store, &request("extended")).await, acquire(&store, &request("late")).await);
    store.drained().await;
    assert_eq!(store.extend(&extended, extended.length).await.unwrap(), Written::Done);
    place.forget_asked().await;
    assert_eq!(store.complete(&extended, &response(201)).await.unwrap(), Written::Done);
    assert_eq!(place.asked("complete_batch").await, 1);
    // Less is left of the lease than PostgreSQL may be behind.
    place.clock.advance(late.length - PATIENCE / 2);
    assert_eq!(store.complete(&late, &response(201)).await.unwrap(), Written::Done);
    assert_eq!(place.asked("complete_batch").await, 2);
    for key in ["extended", "late"] {
        assert!(is_replayed(&store, &request(key)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_responses_of_one_lease_the_first_is_the_answer_in_the_front_and_in_postgresql() {
    let place = Place::start().await.with_outbox();
    let (first, second) = (open(&place, calm()).await, open(&place, calm()).await);
    let lease = acquire(&first, &long("k")).await;
    // From now on the second one knows the clocks of both servers, without which it would ask PostgreSQL.
    acquire(&second, &request("another")).await;
    assert!(is_in_flight(&second, &long("k")).await);
    hold_back(&place).await;
    for _ in 0..2 {
        assert_eq!(first.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    }
    // PostgreSQL has to know of the first one.
    let other_body = StoredResponse { body: Some("another".into()), ..response(201) };
    for other in [response(202), other_body] {
        second.complete(&lease, &other).await.unwrap_err();
    }
    let_go(&place).await;
    until("it has judged", async || second.complete(&lease, &response(202)).await.is_ok()).await;
    let (_, stored) = second.get(lease.record).await.unwrap().unwrap();
    assert_eq!(stored, Some(response(201)));
    assert!(is_replayed(&first, &long("k")).await && is_replayed(&second, &long("k")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_somebody_has_locked_is_drained_later_and_holds_up_nothing() {
    let place = Place::start().await.with_outbox();
    let mut options = calm();
    options.outbox_limit = Duration::from_secs(5);
    let store = open(&place, options.clone()).await;
    let lease = acquire(&store, &request("locked")).await;
    store.drained().await;
    place.sql("BEGIN; SELECT FROM oncegate.records FOR UPDATE").await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    let begun = Instant::now();
    let mut number = 0;
    // Longer than an outbox may lag.
    while begun.elapsed() < options.outbox_limit * 6 / 5 {
        acquire(&store, &request(&format!("k{number}"))).await;
        number += 1;
        until("the others are drained", async || place.records_but_for("locked").await == number).await;
    }
    place.sql("COMMIT").await;
    store.drained().await;
    assert_eq!(place.count("responses").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_has_what_its_backend_completes_and_drops_what_the_front_says_too_late() {
    let place = Place::start().await.with_outbox();
    let late = Arc::<Late>::default();
    let store = open(&place, late.options()).await;
    let mut own = request("own");
    own.policy = Arc::new(Policy::gateway(Backend::Transactional));
    hold_back(&place).await;
    // Not even then is it executed before PostgreSQL has it.
    store.claim(&own).await.unwrap_err();
    let lease = acquire(&store, &request("late")).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    let buried = "INSERT INTO oncegate.graves SELECT ($1)::uuid, $2, now() + interval '1 h'";
    let buried = buried.replace("$1", &format!("'{}'", lease.record)).replace("$2", &lease.fence.get().to_string());
    place.sql(&buried).await;
    let_go(&place).await;
    store.drained().await;
    until("it is replayed no more", async || !is_known(&store, "late").await).await;
    assert_eq!(late.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_purged_when_it_is_long_drained_does_not_come_too_late() {
    let place = Place::start().await.with_outbox();
    let late = Arc::<Late>::default();
    let store = open(&place, late.options()).await;
    execute(&store, &request("k")).await;
    store.drained().await;
    let before = store.generation();
    place.sql("SELECT oncegate.purge(record, fence, 'wrong') FROM oncegate.records").await;
    until("it has heard of it", async || store.generation() != before).await;
    // Whether it is new has to wait; what the front has of it PostgreSQL is told once more.
    store.claim(&repeat(&request("k"))).await.unwrap_err();
    assert_eq!((place.count("records").await, late.count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_postgresql_has_lost_is_written_with_its_completion() {
    let place = Place::start().await.with_outbox();
    let late = Arc::<Late>::default();
    let store = open(&place, late.options()).await;
    let lease = acquire(&store, &request("k")).await;
    store.drained().await;
    hold_back(&place).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    // As a standby without it that was promoted.
    place.sql("DELETE FROM oncegate.records; DELETE FROM oncegate.graves").await;
    let_go(&place).await;
    store.drained().await;
    assert_eq!((place.count("records").await, place.count("responses").await, late.count()), (1, 1, 0));
    assert!(is_replayed(&store, &request("k")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_claim_postgresql_has_lost_is_kept_until_the_front_says_what_it_has() {
    let place = Place::start().await.with_outbox();
    let late = Arc::<Late>::default();
    let mut options = late.options();
    options.front_timeout = Duration::from_secs(2);
    let store = open(&place, options).await;
    let lease = acquire(&store, &request("k")).await;
    store.drained().await;
    hold_back(&place).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    place.sql("DELETE FROM oncegate.records; DELETE FROM oncegate.graves").await;
    place.redis.lock().await.pause();
    place.forget_asked().await;
    let_go(&place).await;
    until("PostgreSQL was asked again, for the front did not answer", async || place.asked("apply_batch").await > 1)
        .await;
    assert_eq!((place.count("records").await, late.count()), (0, 0));
    place.redis.lock().await.resume();
    store.drained().await;
    assert_eq!((place.count("records").await, place.count("responses").await, late.count()), (1, 1, 0));
    until("it is replayed", async || is_replayed(&store, &request("k")).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_a_failover_has_lost_is_not_believed_in_any_more() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    // What it was told last, and what another PostgreSQL has, which lacks that.
    let closed = "mode = 'authoritative', sentinel = NULL, switched_at = now(), epoch = epoch + 7";
    for (key, lost, is_open) in [("closed", closed, false), ("opened", "epoch = epoch + 7", true)] {
        place.sql(&format!("UPDATE oncegate.front SET {lost}")).await;
        until("it has heard of it", async || store.has_outbox() == is_open).await;
        let before = "UPDATE oncegate.front SET epoch = 1, mode = 'outbox', sentinel = gen_random_uuid(),
                      name = gen_random_uuid()";
        place.sql(before).await;
        until("a new key is claimed, and later an outbox opened again", async || {
            let is_claimed = store.claim(&request(key)).await.is_ok();
            pass_quiet(&place).await;
            is_claimed && store.has_outbox()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_alone_is_refused_for_long_is_set_aside_whatever_the_reason() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    refuse(&place, "NEW.key = 'refused'").await;
    acquire(&store, &request("refused")).await;
    acquire(&store, &request("other")).await;
    until("it is set aside", async || place.count("poison").await == 1).await;
    store.drained().await;
    assert_eq!((place.count("records").await, place.records_but_for("refused").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_read_of_the_dead_keeps_no_key_waiting() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, hasty()).await;
    // As a later version may have written it.
    let unreadable = ("oncegate:{00}:outbox:".to_owned(), vec![b"what".to_vec(), b"?".to_vec()]);
    place.flush().await;
    until("it has said that it lives", async || place.outboxes().await == 1).await;
    place.leave(&[unreadable], "dead").await;
    store.claim(&request("k")).await.unwrap_err();
    until("PostgreSQL takes claims", async || store.claim(&request("k")).await.is_ok()).await;
    assert_eq!(place.outboxes().await, 2, "it is left to who can read it");
}

/// Waits until a store has looked at what PostgreSQL says of its front, and has done what it does about it.
async fn look(place: &Place, store: &TieredStore) {
    // The second look begins after the end of the first one.
    for _ in 0..2 {
        let before = store.generation();
        place.sql("UPDATE oncegate.front SET name = gen_random_uuid()").await;
        until("it has looked", async || store.generation() != before).await;
    }
}

/// Whether somebody has completed it; else it is claimed.
async fn is_known(store: &TieredStore, key: &str) -> bool {
    matches!(store.claim(&repeat(&request(key))).await, Ok(Claim::Completed(_)))
}
