//! One request under two keys.

use crate::{fixture::Place, shared::pairs_are_noted_once};

#[tokio::test]
async fn one_request_under_two_keys_is_noted_once() {
    let place = Place::fresh();
    let store = place.open();
    pairs_are_noted_once(&store, |by| place.clock.advance(by)).await;
}
