//! The contract behind PgBouncer in transaction mode: no session is ours.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::chown,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures_util::future::join_all;
use oncegate_core::conformance;
use oncegate_store::postgres::Migrator;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    conformance::{HISTORIES_ELSEWHERE, SIDE_BY_SIDE},
    fixture::{PATIENCE, Place},
};

/// A running pooler. Dropping it, also while a test panics, ends it.
struct Pooler {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl Pooler {
    /// Few connections, lent for one transaction each, so that every batch may meet another session.
    async fn start(server: u16) -> Self {
        let directory = tempfile::Builder::new().prefix("oncegate-pgbouncer-").tempdir().expect("there is room");
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free").local_addr().expect("bound").port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={server} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 4\nmax_client_conn = 1000\n"
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("the directory is ours");
        // Debian keeps it where only root's PATH leads.
        let packaged = Path::new("/usr/sbin/pgbouncer");
        let mut command = Command::new(if packaged.is_file() { packaged } else { Path::new("pgbouncer") });
        if rustix::process::geteuid().is_root() {
            // It refuses to stay root.
            command.args(["-u", "postgres"]);
            let id = Command::new("id").args(["-u", "postgres"]).output().expect("id is everywhere");
            let id = String::from_utf8(id.stdout).expect("a number").trim().parse().expect("there is a user postgres");
            chown(directory.path(), Some(id), None).expect("we are root");
        }
        let child = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("PgBouncer is installed: apt-get install pgbouncer");
        let mut pooler = Self { child, port, _directory: directory };
        pooler.ready().await;
        pooler
    }

    fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    async fn ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while tokio_postgres::connect(&self.address(), tokio_postgres::NoTls).await.is_err() {
            let ended = self.child.try_wait().expect("it is our child");
            assert!(ended.is_none() && Instant::now() < deadline, "PgBouncer does not start: {ended:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pooler_in_transaction_mode_changes_nothing() {
    let place = Place::start(&["fsync=off"]).await;
    let pooler = Pooler::start(place.port()).await;
    let place = place.through(&pooler.address()).lending();
    conformance::run(async || place.emptied().await).await;
    conformance::so_many_histories_side_by_side(HISTORIES_ELSEWHERE, place.divided(SIDE_BY_SIDE, pooler.port).await)
        .await;
}

/// The first value of the first row; through the simple protocol, which prepares nothing.
async fn first_value(client: &tokio_postgres::Client, query: &str) -> String {
    let messages = client.simple_query(query).await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.unwrap_or("NULL").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sql_contract_and_its_migrations_need_no_session() {
    let place = Place::start(&["fsync=off"]).await;
    place.connect().await.batch_execute("DROP SCHEMA oncegate CASCADE").await.unwrap();
    let pooler = Pooler::start(place.port()).await;
    let mut migrator = Migrator::connect(&pooler.address().parse().unwrap()).await.unwrap();
    assert_eq!(migrator.migrate().await.unwrap(), usize::try_from(Migrator::SCHEMA).unwrap());

    let mut clients = Vec::new();
    for _ in 0..16 {
        let (client, connection) =
            tokio_postgres::connect(&pooler.address(), tokio_postgres::NoTls).await.expect("it is ready");
        tokio::spawn(connection);
        clients.push(client);
    }
    let claim = "SELECT outcome FROM oncegate.claim('shop', 'k', 'f')";
    let outcomes = join_all(clients.iter().map(|client| first_value(client, claim))).await;
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "acquired").count(), 1, "{outcomes:?}");
    let enter = "BEGIN ISOLATION LEVEL READ COMMITTED;
                 SELECT oncegate.complete(record, fence, 201, '[]', 'paid') FROM oncegate.enter('shop', 'e', 'f');
                 COMMIT";
    clients[0].batch_execute(enter).await.unwrap();
    let repeat = "SELECT outcome FROM oncegate.enter('shop', 'e', 'f')";
    let outcomes = join_all(clients.iter().map(|client| first_value(client, repeat))).await;
    assert!(outcomes.iter().all(|outcome| outcome == "completed"), "{outcomes:?}");
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(first_value(&clients[0], locks).await, "0", "none stays behind in a connection");
}
