//! A standby that takes over for a primary that is lost.

use oncegate_core::{Claim, ErrorKind, Lease, Store, Written};
use oncegate_store::postgres::{Migrator, Options, PostgresStore};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use crate::{
    fixture::{PATIENCE, acquire, repeat, request, response},
    server::Server,
};

/// Polls a server until a query says true.
async fn until(client: &Client, query: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !client.query_one(query, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "never: {query}");
        sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Asks until there is an answer.
async fn acquired_at_last(store: &PostgresStore, key: &str) -> Lease {
    let (deadline, request) = (Instant::now() + PATIENCE, request(key));
    loop {
        match store.claim(&request).await {
            Ok(Claim::Acquired(lease)) => return lease,
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(Instant::now() < deadline, "no server takes over");
    }
}

/// Which connections a store has.
async fn connections(client: &Client) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'oncegate' ORDER BY pid";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_that_can_be_written_to_is_found_before_and_after_a_failover() {
    let primary = Server::start(&[]).await;
    let standby = primary.standby().await;
    let at_primary = primary.connect().await;
    // What is acknowledged is on both.
    at_primary.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    at_primary.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until(&at_primary, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").await;

    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", standby.port(), primary.port());
    let address = format!("postgres://postgres@{hosts}/postgres").parse().unwrap();
    assert!(Migrator::connect(&address).await.unwrap().migrate().await.unwrap() > 0, "by the primary");
    let mut options = Options::default();
    options.lanes = 1;
    let store = PostgresStore::open(&address, options);
    let lease = acquire(&store, &request("before")).await;
    assert_eq!(store.complete(&lease, &response(b"paid")).await.unwrap(), Written::Done);

    primary.stop();
    standby.promote();
    let after = acquired_at_last(&store, "after").await;
    assert!(after.fence > lease.fence, "no fence returns");
    assert!(matches!(store.claim(&repeat(&request("before"))).await, Ok(Claim::Completed(_))));

    let at_standby = standby.connect().await;
    let before = connections(&at_standby).await;
    for (value, is_writable) in [("on", false), ("off", true)] {
        let alter = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        // The session's own setting wins over what it has just changed for others.
        at_standby.batch_execute("SET default_transaction_read_only = off").await.unwrap();
        at_standby.batch_execute(&alter).await.unwrap();
        at_standby.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        until(
            &standby.connect().await,
            &format!("SELECT current_setting('default_transaction_read_only') = '{value}'"),
        )
        .await;
        if is_writable {
            acquired_at_last(&store, "again").await;
        } else {
            let refused = store.claim(&request("demoted")).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
        }
    }
    let now = connections(&at_standby).await;
    assert!(before.iter().all(|pid| !now.contains(pid)), "a server that cannot be written to was not left: {now:?}");
}
