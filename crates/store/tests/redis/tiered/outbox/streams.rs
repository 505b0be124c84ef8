//! What stands in the streams of a gateway: the names of what PostgreSQL does not have, and nothing else for long.

use oncegate_core::{Store, Written};

use super::{
    super::{
        front::{execute, is_replayed},
        place::{Place, acquire, until},
    },
    calm, hold_back, let_go, open,
};
use crate::fixture::{request, response};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ends_when_all_is_drained_leaves_nothing_to_others() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    hold_back(&place).await;
    execute(&store, &request("k")).await;
    assert_eq!(place.streams().await.len(), 2, "the claim and the completion");
    // What is told of it takes its time.
    place.tell_redis(&["CLIENT", "PAUSE", "500", "WRITE"]).await;
    let_go(&place).await;
    store.drained().await;
    assert_eq!(place.count("records").await, 1);
    assert_eq!(place.streams().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_out_of_a_stream_is_taken_out_later() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    place.tell_redis(&["ACL", "SETUSER", "default", "-xdel"]).await;
    execute(&store, &request("k")).await;
    store.drained().await;
    assert_eq!(place.streams().await.len(), 2, "Redis refuses to take it out");
    place.tell_redis(&["ACL", "SETUSER", "default", "+xdel"]).await;
    until("it is taken out", async || place.streams().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_have_named_is_drained_as_it_is_by_now_and_a_copy_is_left_alone() {
    let place = Place::start().await.with_outbox();
    let store = open(&place, calm()).await;
    hold_back(&place).await;
    let lease = acquire(&store, &request("copied")).await;
    acquire(&store, &request("over")).await;
    let named = place.streams().await;
    let_go(&place).await;
    store.drained().await;
    // PostgreSQL completes it, so what the front has of it is a copy from then on.
    assert_eq!(store.extend(&lease, lease.length).await.unwrap(), Written::Done);
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    // The life of the other one ends: nothing stands there any more.
    let over = request("over").id.digest().to_string().replace('-', "");
    let (_, over) = named.iter().find(|(_, fields)| fields[1].ends_with(over.as_bytes())).expect("it is named");
    place.tell_redis(&["DEL", str::from_utf8(&over[1]).unwrap()]).await;
    place.forget_asked().await;
    place.leave(&named, "dead").await;
    until("all of it is taken out", async || place.outboxes().await == 1).await;
    assert_eq!(place.asked("apply_batch").await, 0);
    assert!(is_replayed(&store, &request("copied")).await);
    assert_eq!(place.asked("claim_batch").await, 0);
}
