//! On connections of tokio-postgres.

use oncegate_core::{Lease, Store, StoredResponse, Written};
use oncegate_store::complete_in::{CompleteIn, CompleteInError, Fenced};
use tokio_postgres::{Client, Error, Transaction, error::SqlState};

use crate::place::{Shop, response};

async fn pay(transaction: &Transaction<'_>, key: &str) {
    transaction.execute("INSERT INTO payments VALUES ($1)", &[&key]).await.unwrap();
}

/// A whole handler: pays and completes, in one transaction.
async fn handle(client: &mut Client, lease: &Lease, key: &str) -> Result<(), CompleteInError<Error>> {
    let transaction = client.transaction().await.unwrap();
    pay(&transaction, key).await;
    lease.complete_in(&transaction, &response()).await?;
    transaction.commit().await.unwrap();
    Ok(())
}

fn is_fenced(handled: Result<(), CompleteInError<Error>>, lease: &Lease) -> bool {
    matches!(handled, Err(CompleteInError::Fenced(Fenced { record, fence })) if (record, fence) == (lease.record, lease.fence))
}

#[tokio::test]
async fn effect_and_response_commit_together() {
    let shop = Shop::open().await;
    let mut client = shop.server.connect().await;
    let lease = shop.acquire("k").await;
    handle(&mut client, &lease, "k").await.unwrap();
    assert_eq!((shop.payments("k").await, shop.replay("k").await), (1, response()));

    // A body that was not kept, and one that is empty, stay apart.
    for (key, body) in [("none", None), ("empty", Some(bytes::Bytes::new()))] {
        let lease = shop.acquire(key).await;
        let stored = StoredResponse { body, ..response() };
        lease.complete_in(&client, &stored).await.unwrap();
        assert_eq!(shop.replay(key).await, stored);
    }
}

#[tokio::test]
async fn a_rollback_takes_both() {
    let shop = Shop::open().await;
    let mut client = shop.server.connect().await;
    let lease = shop.acquire("k").await;
    let transaction = client.transaction().await.unwrap();
    pay(&transaction, "k").await;
    lease.complete_in(&transaction, &response()).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(shop.payments("k").await, 0);
    assert_eq!(shop.store.release(&lease).await.unwrap(), Written::Done, "the record is in flight as before");
}

#[tokio::test]
async fn who_was_taken_over_pays_nothing() {
    let shop = Shop::open().await;
    let mut client = shop.server.connect().await;
    let zombie = shop.acquire("k").await;
    shop.end_leases();
    let taker = shop.acquire("k").await;
    assert_eq!(taker.attempt, 2);
    assert!(is_fenced(handle(&mut client, &zombie, "k").await, &zombie));
    handle(&mut client, &taker, "k").await.unwrap();
    assert!(is_fenced(handle(&mut client, &zombie, "k").await, &zombie), "afterwards as well");
    assert_eq!(shop.payments("k").await, 1);
    let refused = handle(&mut client, &zombie, "k").await.unwrap_err().to_string();
    assert!(refused.ends_with("roll the whole transaction back"), "{refused}");
}

#[tokio::test]
async fn late_is_not_stale() {
    let shop = Shop::open().await;
    let mut client = shop.server.connect().await;
    let lease = shop.acquire("k").await;
    shop.end_leases();
    handle(&mut client, &lease, "k").await.unwrap();
    assert_eq!(shop.replay("k").await, response());
}

#[tokio::test]
async fn one_lease_that_is_delivered_twice_pays_once() {
    let shop = Shop::open().await;
    let (mut one, mut other) = (shop.server.connect().await, shop.server.connect().await);
    let lease = shop.acquire("k").await;
    handle(&mut one, &lease, "k").await.unwrap();
    assert!(is_fenced(handle(&mut other, &lease, "k").await, &lease), "one after the other");

    // At once: the second waits for the first, and goes by what that did.
    for is_committed in [true, false] {
        let key = if is_committed { "committed" } else { "rolled-back" };
        let lease = shop.acquire(key).await;
        let (first, second) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
        pay(&first, key).await;
        pay(&second, key).await;
        lease.complete_in(&first, &response()).await.unwrap();
        let answer = response();
        let waiting = lease.complete_in(&second, &answer);
        let ending = async {
            shop.await_a_waiting_lock().await;
            if is_committed { first.commit().await } else { first.rollback().await }
        };
        let (waited, ended) = tokio::join!(waiting, ending);
        ended.unwrap();
        assert_eq!(waited.is_ok(), !is_committed);
        if waited.is_ok() { second.commit().await } else { second.rollback().await }.unwrap();
        assert_eq!(shop.payments(key).await, 1);
    }
}

#[tokio::test]
async fn savepoints_keep_what_they_keep_of_both() {
    let shop = Shop::open().await;
    let mut client = shop.server.connect().await;

    // Released savepoints, as frameworks nest them: all of it commits.
    let lease = shop.acquire("kept").await;
    let mut outer = client.transaction().await.unwrap();
    let inner = outer.transaction().await.unwrap();
    pay(&inner, "kept").await;
    lease.complete_in(&inner, &response()).await.unwrap();
    inner.commit().await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!((shop.payments("kept").await, shop.replay("kept").await), (1, response()));

    // Rolled back to the savepoint: the effect in it and the completion go together, and may be tried again.
    let lease = shop.acquire("again").await;
    let mut outer = client.transaction().await.unwrap();
    let inner = outer.transaction().await.unwrap();
    pay(&inner, "again").await;
    lease.complete_in(&inner, &response()).await.unwrap();
    inner.rollback().await.unwrap();
    pay(&outer, "again").await;
    lease.complete_in(&outer, &response()).await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!((shop.payments("again").await, shop.replay("again").await), (1, response()));

    // A refusal in a savepoint aborts no more than it. That is why all of the transaction must be rolled back.
    let mut outer = client.transaction().await.unwrap();
    pay(&outer, "again").await;
    let inner = outer.transaction().await.unwrap();
    let refused = lease.complete_in(&inner, &response()).await;
    assert!(is_fenced(refused, &lease));
    inner.rollback().await.unwrap();
    outer.rollback().await.unwrap();
    assert_eq!(shop.payments("again").await, 1);
}

#[tokio::test]
async fn the_drivers_own_errors_come_as_they_are() {
    let shop = Shop::open().await;
    let client = shop.server.connect().await;
    let lease = shop.acquire("k").await;
    client.batch_execute("BEGIN READ ONLY").await.unwrap();
    let Err(CompleteInError::Database(error)) = lease.complete_in(&client, &response()).await else {
        panic!("a transaction that cannot write completes nothing");
    };
    assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    let Err(CompleteInError::Database(error)) = lease.complete_in(&client, &response()).await else {
        panic!("nor does an aborted one");
    };
    assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
}
