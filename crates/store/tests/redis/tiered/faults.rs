//! The front lost, stopped or killed; PostgreSQL gone, restarted, or taken over by a standby that lacks something.

use oncegate_core::{Claim, ErrorKind, Store, Written};
use oncegate_store::tiered::{Options, TieredStore};

use super::{
    front::{execute, is_replayed, other_body},
    place::{COUNTING, FAST, PATIENCE, Place, acquire, until},
};
use crate::fixture::{repeat, request, response};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_store_has_in_flight_another_refuses_after_the_front_lost_it_and_while_the_front_is_stopped() {
    let place = Place::start().await;
    let mut options = Options::default();
    options.timeout = PATIENCE;
    let (first, second) = (place.open().await, place.open_with(options).await);
    let (lost, stopped) = (request("lost"), request("stopped"));
    let lease = acquire(&first, &lost).await;
    place.flush().await;
    assert!(matches!(second.claim(&repeat(&lost)).await.unwrap(), Claim::InFlight { .. }));
    assert!(matches!(second.claim(&other_body(&lost)).await.unwrap(), Claim::Mismatch(_)));
    assert_eq!(first.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    assert!(is_replayed(&second, &lost).await);

    let lease = acquire(&first, &stopped).await;
    place.redis.lock().await.pause();
    // More than it takes until the front is left alone.
    for _ in 0..10 {
        assert!(matches!(second.claim(&repeat(&stopped)).await.unwrap(), Claim::InFlight { .. }));
        assert!(is_replayed(&second, &lost).await);
    }
    place.redis.lock().await.resume();
    assert_eq!(first.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    until("the front is used again", async || is_replayed(&second, &stopped).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_gone_known_keys_are_replayed_and_new_ones_are_refused_in_time() {
    let restarts: u32 = std::env::var("ONCEGATE_RESTARTS").map_or(2, |count| count.parse().unwrap());
    let place = Place::start().await;
    let store = place.open().await;
    for number in 0..restarts {
        let known = request(&format!("known{number}"));
        until("PostgreSQL executes again", async || is_executed(&store, &known).await).await;
        assert!(
            is_replayed(&store, &known).await,
            "the front knows it, also if it was too slow to be told of the completion"
        );
        place.postgres.stop();
        for attempt in 0..20 {
            assert!(is_replayed(&store, &known).await);
            let fresh = request(&format!("fresh{number}-{attempt}"));
            let refused = tokio::time::timeout(PATIENCE, store.claim(&fresh)).await;
            let error = refused.expect("within the store's timeout").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        place.postgres.start_again(&[FAST, COUNTING]);
    }
    for number in 0..restarts {
        assert!(is_replayed(&store, &request(&format!("known{number}"))).await, "nothing is lost");
    }
}

/// Executes it if that is possible now.
async fn is_executed(store: &TieredStore, request: &oncegate_core::ClaimRequest) -> bool {
    match store.claim(request).await {
        Ok(Claim::Acquired(lease)) => store.complete(&lease, &response(201)).await.is_ok(),
        Ok(Claim::Completed(_)) => true,
        Ok(_) | Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_lacks_a_completion_makes_all_void_that_the_front_holds() {
    let place = Place::start().await;
    let standby = place.postgres.standby().await;
    let at_standby = standby.connect().await;
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", place.postgres.port(), standby.port());
    let store = place.on(&format!("postgres://postgres@{hosts}/postgres")).open().await;
    let remembered = "SELECT count(*) FROM oncegate.front";
    until("the standby knows the front", async || {
        at_standby.query_one(remembered, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    // From here on nothing reaches it.
    at_standby.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    at_standby.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let following = "SELECT count(*) FROM pg_stat_wal_receiver";
    until("the standby is alone", async || at_standby.query_one(following, &[]).await.unwrap().get::<_, i64>(0) == 0)
        .await;
    let lost = request("lost");
    execute(&store, &lost).await;
    let before = store.generation();
    assert!(is_replayed(&store, &lost).await);
    place.postgres.stop();
    standby.promote();
    let is_another = || store.generation().is_some_and(|it| Some(it) != before);
    until("the front begins anew, and is used again", async || is_another()).await;
    // What was acknowledged is lost with its effect, so it must not be replayed.
    let claim = tokio::time::timeout(PATIENCE, store.claim(&repeat(&lost))).await.unwrap().unwrap();
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
}
