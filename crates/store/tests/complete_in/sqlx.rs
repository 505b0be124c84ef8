//! On connections of sqlx.

use oncegate_core::{Lease, Store, StoredResponse, Written};
use oncegate_store::complete_in::{CompleteIn, CompleteInError, Fenced};
use sqlx::{Connection, Error, PgConnection, PgTransaction};

use crate::place::{Shop, response};

async fn connect(shop: &Shop) -> PgConnection {
    PgConnection::connect(&shop.server.address()).await.unwrap()
}

async fn pay(transaction: &mut PgTransaction<'_>, key: &str) {
    sqlx::query("INSERT INTO payments VALUES ($1)").bind(key).execute(&mut **transaction).await.unwrap();
}

async fn handle(connection: &mut PgConnection, lease: &Lease, key: &str) -> Result<(), CompleteInError<Error>> {
    let mut transaction = connection.begin().await.unwrap();
    pay(&mut transaction, key).await;
    lease.complete_in(&mut *transaction, &response()).await?;
    transaction.commit().await.unwrap();
    Ok(())
}

fn is_fenced(handled: Result<(), CompleteInError<Error>>, lease: &Lease) -> bool {
    matches!(handled, Err(CompleteInError::Fenced(Fenced { record, fence })) if (record, fence) == (lease.record, lease.fence))
}

#[tokio::test]
async fn effect_and_response_commit_together_or_not_at_all() {
    let shop = Shop::open().await;
    let mut connection = connect(&shop).await;
    let lease = shop.acquire("k").await;
    handle(&mut connection, &lease, "k").await.unwrap();
    assert_eq!((shop.payments("k").await, shop.replay("k").await), (1, response()));

    let lease = shop.acquire("none").await;
    let stored = StoredResponse { body: None, ..response() };
    lease.complete_in(&mut connection, &stored).await.unwrap();
    assert_eq!(shop.replay("none").await, stored);

    let lease = shop.acquire("rolled-back").await;
    let mut transaction = connection.begin().await.unwrap();
    pay(&mut transaction, "rolled-back").await;
    lease.complete_in(&mut *transaction, &response()).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(shop.payments("rolled-back").await, 0);
    assert_eq!(shop.store.release(&lease).await.unwrap(), Written::Done, "the record is in flight as before");
}

#[tokio::test]
async fn who_was_taken_over_or_comes_twice_pays_nothing() {
    let shop = Shop::open().await;
    let mut connection = connect(&shop).await;
    let zombie = shop.acquire("k").await;
    shop.end_leases();
    let taker = shop.acquire("k").await;
    assert!(is_fenced(handle(&mut connection, &zombie, "k").await, &zombie));
    handle(&mut connection, &taker, "k").await.unwrap();
    assert!(is_fenced(handle(&mut connection, &taker, "k").await, &taker), "delivered twice");
    assert_eq!(shop.payments("k").await, 1);
}

#[tokio::test]
async fn savepoints_keep_what_they_keep_of_both() {
    let shop = Shop::open().await;
    let mut connection = connect(&shop).await;
    let lease = shop.acquire("k").await;
    let mut outer = connection.begin().await.unwrap();
    let mut inner = outer.begin().await.unwrap();
    pay(&mut inner, "k").await;
    lease.complete_in(&mut *inner, &response()).await.unwrap();
    inner.rollback().await.unwrap();
    let mut inner = outer.begin().await.unwrap();
    pay(&mut inner, "k").await;
    lease.complete_in(&mut *inner, &response()).await.unwrap();
    inner.commit().await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!((shop.payments("k").await, shop.replay("k").await), (1, response()));
}

#[tokio::test]
async fn the_drivers_own_errors_come_as_they_are() {
    let shop = Shop::open().await;
    let mut connection = connect(&shop).await;
    let lease = shop.acquire("k").await;
    sqlx::query("SET default_transaction_read_only = on").execute(&mut connection).await.unwrap();
    let Err(CompleteInError::Database(error)) = lease.complete_in(&mut connection, &response()).await else {
        panic!("a transaction that cannot write completes nothing");
    };
    assert_eq!(error.as_database_error().and_then(|error| error.code()).as_deref(), Some("25006"));
}
