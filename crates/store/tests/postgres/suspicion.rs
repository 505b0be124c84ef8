//! One request under two keys.

use oncegate_core::{Store as _, Suspicion};

use crate::{
    fixture::Place,
    shared::{A_LOOK_LATER, execute, pairs_are_noted_once},
};

#[tokio::test]
async fn one_request_under_two_keys_is_noted_once_by_one_of_many_stores() {
    let place = Place::start(&[]).await;
    let (one, other) = (place.open(), place.open());
    pairs_are_noted_once(&one, |by| place.clock.advance(by)).await;

    place.clock.advance(Suspicion::WINDOW);
    execute(&one, "x-org=4:acme", "g1", 9).await;
    assert_eq!(one.suspect(Vec::new(), Suspicion::WINDOW).await.unwrap(), []);
    execute(&other, "x-org=4:acme", "g2", 9).await;
    assert_eq!(other.suspect(Vec::new(), Suspicion::WINDOW).await.unwrap(), [], "somebody has just looked");

    // Nobody waits for whoever looks.
    place.clock.advance(A_LOOK_LATER);
    let holder = place.connect().await;
    holder.batch_execute("BEGIN; SELECT FROM oncegate.suspicion_look FOR UPDATE").await.unwrap();
    assert_eq!(other.suspect(Vec::new(), Suspicion::WINDOW).await.unwrap(), []);
    holder.batch_execute("ROLLBACK").await.unwrap();
    let (seen, missed) =
        tokio::join!(other.suspect(Vec::new(), Suspicion::WINDOW), one.suspect(Vec::new(), Suspicion::WINDOW));
    assert_eq!(seen.unwrap().len() + missed.unwrap().len(), 1);
}
