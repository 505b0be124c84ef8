//! What stands in the streams of a gateway that lives: what PostgreSQL does not have, and nothing else for long.

use oncegate_core::Store;

use super::{
    super::{
        front::execute,
        place::{Place, until},
    },
    calm, hold_back, let_go, open,
};
use crate::fixture::request;

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
