//! One request under two keys.

use oncegate_core::{Store as _, Suspicion};

use crate::{
    fixture::Place,
    shared::{A_LOOK_LATER, execute, pair, pairs_are_noted_once},
};

#[tokio::test]
async fn one_request_under_two_keys_is_noted_once() {
    let place = Place::fresh();
    let store = place.open();
    pairs_are_noted_once(&store, |by| place.clock.advance(by)).await;
}

#[tokio::test]
async fn a_process_looks_once_a_minute_however_often_its_gate_has_seen_something() {
    let place = Place::fresh();
    let store = place.open();
    let suspect = async |found| store.suspect(found, Suspicion::WINDOW).await.unwrap();
    assert_eq!(suspect(Vec::new()).await, []);
    let (first, second) = (execute(&store, "", "a1", 1).await, execute(&store, "", "a2", 1).await);
    let (third, fourth) = (execute(&store, "", "b1", 2).await, execute(&store, "", "b2", 2).await);
    let seen = pair(&first, &second, "a2", true);
    assert_eq!(suspect(vec![seen.clone()]).await, [seen], "what the gate has seen is noted at once");

    place.clock.advance(A_LOOK_LATER);
    let found = suspect(Vec::new()).await;
    assert_eq!(found.len(), 1, "the minute is over");
    assert!([third.record, fourth.record].contains(&found[0].record));
}
