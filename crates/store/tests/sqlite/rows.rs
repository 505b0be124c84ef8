//! What the file itself guards, whoever writes to it, and rows that are not what they should be.

use oncegate_core::{ErrorKind, Filter, IdempotencyKey, Scope, StateName, Store, Written};

use crate::fixture::{Place, acquire, purge, request, response};

#[tokio::test]
async fn a_fence_outlives_every_record() {
    let place = Place::fresh();
    let store = place.open();
    let last = acquire(&store, &request("k")).await.fence;
    let shell = place.connect();
    shell.execute_batch("DELETE FROM records").unwrap();
    assert!(acquire(&store, &request("k")).await.fence > last);
    let error = shell.execute_batch("UPDATE fences SET last = 0").unwrap_err();
    assert!(error.to_string().contains("a fence is never reused"), "{error}");
}

#[tokio::test]
async fn a_response_goes_with_its_record() {
    let place = Place::fresh();
    let store = place.open();
    let shell = place.connect();
    let responses = || shell.query_row("SELECT count(*) FROM responses", [], |row| row.get::<_, i64>(0)).unwrap();
    let complete = async |key: &str| {
        let lease = acquire(&store, &request(key)).await;
        assert_eq!(store.complete(&lease, &response(b"x")).await.unwrap(), Written::Done);
        lease
    };
    let purged = complete("purged").await;
    complete("by-hand").await;
    complete("replaced").await;
    complete("reaped").await;
    assert_eq!(responses(), 4);

    purge(&store, &purged).await;
    assert_eq!(responses(), 3);
    shell.execute_batch("DELETE FROM records WHERE key = 'by-hand'").unwrap();
    assert_eq!(responses(), 2);
    place.clock.advance(request("k").policy.retention);
    acquire(&store, &request("replaced")).await;
    assert_eq!(responses(), 1);
    assert_eq!(store.reap(10).await.unwrap().expired, 1);
    assert_eq!(responses(), 0);
}

#[tokio::test]
async fn rows_that_break_an_invariant_are_refused_by_its_name() {
    let place = Place::fresh();
    let store = place.open();
    acquire(&store, &request("k")).await;
    let shell = place.connect();
    for (change, invariant) in [
        ("state = 'done'", "state_is_known"),
        ("backend = 'magic'", "backend_is_known"),
        ("on_abandoned = 'retry'", "on_abandoned_is_known"),
        ("spelling = 'loud'", "spelling_is_known"),
        ("state = 'completed', lease_until = NULL, completed_at = created_at", "completed_has_status"),
        ("state = 'unknown', lease_until = NULL, doubted_at = created_at", "unknown_has_reason"),
        ("lease_until = NULL", "in_flight_has_lease"),
        ("status = 200", "completed_has_status"),
        ("fence = 0", "fence_grows"),
        ("attempt = 0", "attempt_counts"),
        ("expires_at = created_at", "record_outlives_lease"),
        ("record = x'00'", "record_is_a_digest"),
        ("fingerprint = x''", "fingerprint_has_a_length"),
    ] {
        let error = shell.execute_batch(&format!("UPDATE records SET {change}")).unwrap_err();
        assert!(error.to_string().contains(invariant), "{change}: {error}");
    }
}

#[tokio::test]
async fn a_damaged_row_is_an_error_for_its_own_key_only() {
    let place = Place::fresh();
    let store = place.open();
    let (bad, good) = (request("bad"), request("good"));
    acquire(&store, &bad).await;
    acquire(&store, &good).await;
    let shell = place.connect();
    shell
        .execute_batch("PRAGMA ignore_check_constraints = ON; UPDATE records SET state = 'done' WHERE key = 'bad'")
        .unwrap();
    let error = store.claim(&bad).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(&format!("{}", bad.id.digest())), "{error}");
    assert_eq!(store.get(bad.id.digest()).await.unwrap_err().kind(), ErrorKind::Corrupt);
    acquire(&store, &good).await;
}

#[tokio::test]
async fn a_row_of_another_key_under_the_same_digest_is_a_collision() {
    let place = Place::fresh();
    let store = place.open();
    let request = request("k");
    acquire(&store, &request).await;
    for change in ["key = 'other'", "key = 'k', scope = 'other'"] {
        place.connect().execute_batch(&format!("UPDATE records SET {change}")).unwrap();
        assert_eq!(store.claim(&request).await.unwrap_err().kind(), ErrorKind::Collision, "{change}");
        assert_eq!(store.get(request.id.digest()).await.unwrap_err().kind(), ErrorKind::Corrupt, "{change}");
    }
}

#[tokio::test]
async fn a_completed_record_without_its_response_is_corrupt() {
    let place = Place::fresh();
    let store = place.open();
    let lease = acquire(&store, &request("k")).await;
    assert_eq!(store.complete(&lease, &response(b"x")).await.unwrap(), Written::Done);
    place.connect().execute_batch("DELETE FROM responses").unwrap();
    assert_eq!(store.claim(&request("k")).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn one_record_is_listed_by_its_scope_and_key() {
    let place = Place::fresh();
    let store = place.open();
    for key in ["a", "b"] {
        acquire(&store, &request(key)).await;
    }
    let key = Some(IdempotencyKey::new("b").unwrap());
    let mut filter = Filter { scope: Some(Scope::anonymous()), key, ..Filter::default() };
    assert_eq!(store.list(&filter).await.unwrap().len(), 1);
    filter.state = Some(StateName::Completed);
    assert_eq!(store.list(&filter).await.unwrap(), []);
}

#[tokio::test]
async fn lists_are_in_the_order_of_birth_not_of_change() {
    let place = Place::fresh();
    let store = place.open();
    let leases = [acquire(&store, &request("c")).await, acquire(&store, &request("a")).await];
    acquire(&store, &request("b")).await;
    // Moves the oldest to the end of the index that open records are found by.
    assert_eq!(store.extend(&leases[0], request("c").policy.lease * 2).await.unwrap(), Written::Done);
    for state in [None, Some(StateName::InFlight)] {
        let listed = store.list(&Filter { state, ..Filter::default() }).await.unwrap();
        let keys: Vec<_> = listed.iter().map(|record| record.id.key().as_str()).collect();
        assert_eq!(keys, ["c", "a", "b"], "{state:?}");
    }
}
