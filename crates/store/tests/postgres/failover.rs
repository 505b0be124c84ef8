//! A standby that takes over for a primary that is lost.

use oncegate_core::{Claim, ErrorKind, Lease, Store, Written};
use oncegate_store::postgres::{FrontRegister, Migrator, Options, PostgresStore};
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
    // A server that follows another one is left also where only a question tells.
    at_primary.execute("INSERT INTO oncegate.front (address) VALUES ('redis://front')", &[]).await.unwrap();
    let at_standby = standby.connect().await;
    // It acknowledges what it has written down, and applies it a moment later.
    until(&at_standby, "SELECT to_regclass('oncegate.front') IS NOT NULL").await;
    until(&at_standby, "SELECT count(*) = 1 FROM oncegate.front").await;
    let address_of_standby = format!("postgres://postgres@127.0.0.1:{}/postgres", standby.port()).parse().unwrap();
    let register = FrontRegister::new(&address_of_standby, &Options::default());
    assert_eq!(register.find().await.unwrap_err().kind(), ErrorKind::Unavailable);
    until(&at_standby, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'oncegate'").await;

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
    // The process of a connection that was left ends a moment later.
    let deadline = Instant::now() + PATIENCE;
    while connections(&at_standby).await.iter().any(|pid| before.contains(pid)) {
        assert!(Instant::now() < deadline, "a server that cannot be written to was not left: {before:?}");
        sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Pays for a key in the transaction that completes it, as an application does; whether that was committed.
async fn is_paid(client: &Client, lease: &Lease) -> bool {
    client.batch_execute("BEGIN").await.unwrap();
    let record = uuid::Uuid::from_bytes(*lease.record.as_bytes());
    client.execute("INSERT INTO payments VALUES ($1)", &[&record]).await.unwrap();
    let complete = "SELECT oncegate.complete($1, $2, 201, '[]', 'paid')";
    let completed = client.execute(complete, &[&record, &lease.fence.get()]).await;
    let is_fenced = completed.as_ref().is_err_and(|error| error.code().is_some_and(|code| code.code() == "OG001"));
    assert!(completed.is_ok() || is_fenced, "{completed:?}");
    client.batch_execute(if is_fenced { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
    !is_fenced
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_asynchronous_standby_lacks_is_lost_together_with_its_effect() {
    const KEYS: usize = 40;
    let primary = Server::migrated().await;
    let at_primary = primary.connect().await;
    at_primary.batch_execute("CREATE TABLE payments (record uuid)").await.unwrap();
    let standby = primary.standby().await;
    let at_standby = standby.connect().await;
    // From here on nothing reaches it.
    at_standby.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    at_standby.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until(&at_standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver").await;

    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let address = format!("postgres://postgres@{hosts}/postgres").parse().unwrap();
    let store = PostgresStore::open(&address, Options::default());
    let mut lost = Vec::new();
    for number in 0..KEYS {
        let lease = acquire(&store, &request(&format!("k{number}"))).await;
        // Half of them were paid for and acknowledged, half are still at work.
        assert!(number % 2 == 0 || is_paid(&at_primary, &lease).await);
        lost.push(lease);
    }
    primary.stop();
    standby.promote();
    let mut again = 0;
    for (number, lost) in lost.iter().enumerate() {
        let lease = acquired_at_last(&store, &format!("k{number}")).await;
        // What still ran on the lost server comes first here, or last; its fence may have been given a second time.
        let first = if number % 4 < 2 { lost } else { &lease };
        let second = if number % 4 < 2 { &lease } else { lost };
        again += usize::from(lost.fence == lease.fence);
        let (first, second) = (is_paid(&at_standby, first).await, is_paid(&at_standby, second).await);
        assert!(first != second, "k{number}: one of them pays");
        assert!(matches!(store.claim(&repeat(&request(&format!("k{number}")))).await, Ok(Claim::Completed(_))));
    }
    eprintln!("{again} of {KEYS} fences were given a second time after the failover");
    let count = "SELECT count(*) = 40 AND count(DISTINCT record) = 40 FROM payments";
    assert!(at_standby.query_one(count, &[]).await.unwrap().get::<_, bool>(0));
}
