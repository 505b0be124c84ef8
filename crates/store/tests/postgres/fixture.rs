//! A database with the schema, and stores on it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Lease, Operation, Owner, Policy, RecordId,
    Scope, Store, StoredResponse, Timestamp,
};
use oncegate_store::postgres::{Address, ClockOffset, Migrator, Options, PostgresStore};
use tokio_postgres::Client;

use crate::server::Server;

/// One database under a clock that can be moved on.
#[derive(Clone)]
pub(crate) struct Place {
    server: Arc<Server>,
    address: Address,
    /// What asks for the time and clears the tables.
    client: Arc<Client>,
    pub(crate) clock: ClockOffset,
    lending: Option<Lending>,
}

/// Stores that are lent again and again.
#[derive(Clone, Default)]
struct Lending {
    stores: Arc<Mutex<Vec<Arc<PostgresStore>>>>,
    /// How many of them are lent at present.
    lent: Arc<AtomicUsize>,
}

impl Place {
    /// A server of its own, with these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let server = Server::start(settings).await;
        let client = server.connect().await;
        let address = server.address().parse().expect("it is an address");
        let mut migrator = Migrator::connect(&address).await.expect("the server runs");
        migrator.migrate().await.expect("the database is empty");
        Self {
            server: Arc::new(server),
            address,
            client: Arc::new(client),
            clock: ClockOffset::default(),
            lending: None,
        }
    }

    /// The same, whose stores go on when it is emptied, and so does its clock: most of what a short case costs is to connect.
    pub(crate) fn lending(&self) -> Self {
        Self { lending: Some(Lending::default()), ..self.clone() }
    }

    /// A store that nobody else has until the place is emptied.
    pub(crate) fn lend(&self) -> Arc<PostgresStore> {
        let Some(Lending { stores, lent }) = &self.lending else { return Arc::new(self.open()) };
        let mut stores = stores.lock().expect("no borrower panics meanwhile");
        let next = lent.fetch_add(1, Ordering::SeqCst);
        if next == stores.len() {
            stores.push(Arc::new(self.open()));
        }
        Arc::clone(&stores[next])
    }

    /// The same server, reached through another address.
    pub(crate) fn through(&self, address: &str) -> Self {
        Self { address: address.parse().expect("it is an address"), ..self.clone() }
    }

    /// The same, as an address.
    pub(crate) fn through_address(&self, address: Address) -> Self {
        Self { address, ..self.clone() }
    }

    /// The same server without records and under a clock of its own.
    pub(crate) async fn emptied(&self) -> Self {
        let tables =
            "TRUNCATE oncegate.records, oncegate.responses, oncegate.audit, oncegate.stragglers, oncegate.sweep;
                      INSERT INTO oncegate.sweep DEFAULT VALUES";
        self.client.batch_execute(tables).await.expect("nobody holds a record any more");
        match self.lending.clone() {
            Some(lending) => Self { lending: Some(Lending { lent: Arc::default(), ..lending }), ..self.clone() },
            None => Self { clock: ClockOffset::default(), ..self.clone() },
        }
    }

    /// Databases of their own on the same server, each with the schema and a clock; stores reach them at this port.
    pub(crate) async fn divided(&self, count: usize, port: u16) -> Vec<Self> {
        self.client.batch_execute("CREATE DATABASE pattern").await.expect("the name is free");
        let pattern = format!("postgres://postgres@127.0.0.1:{}/pattern", self.port());
        let pattern = pattern.parse().expect("it is an address");
        let mut migrator = Migrator::connect(&pattern).await.expect("the server runs");
        migrator.migrate().await.expect("the database is empty");
        drop(migrator);
        // A database that somebody is connected to cannot be copied, and hanging up takes a moment.
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'pattern'";
        while self.client.query_one(others, &[]).await.expect("the server answers").get::<_, i64>(0) > 0 {}
        let mut places = Vec::new();
        for number in 0..count {
            let database = format!("place{number}");
            let copy = format!("CREATE DATABASE {database} TEMPLATE pattern");
            self.client.batch_execute(&copy).await.expect("nobody is connected to the pattern");
            // All connect at once, to a machine that may be busy.
            let address = format!("postgres://postgres@127.0.0.1:{port}/{database}?connect_timeout=60");
            let address = address.parse().expect("it is an address");
            let client = Arc::new(self.server.connect_in(&database).await);
            places.push(Self {
                server: Arc::clone(&self.server),
                address,
                client,
                clock: ClockOffset::default(),
                lending: None,
            });
        }
        places
    }

    /// What another process has.
    pub(crate) fn open(&self) -> PostgresStore {
        self.open_with(Options::default())
    }

    pub(crate) fn open_with(&self, mut options: Options) -> PostgresStore {
        options.clock_offset = self.clock.clone();
        PostgresStore::open(&self.address, options)
    }

    /// The server's clock, moved on as the stores' is.
    pub(crate) async fn now(&self) -> Timestamp {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let now = self.client.query_one(sql, &[]).await.expect("the server answers").get(0);
        Timestamp::from_micros(now).after(self.clock.get())
    }

    /// How to connect to it.
    pub(crate) fn config(&self) -> tokio_postgres::Config {
        self.server.address().parse().expect("it is an address")
    }

    /// The server's port.
    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    /// What an application, or a person with psql, has.
    pub(crate) async fn connect(&self) -> Client {
        self.server.connect().await
    }
}

pub(crate) fn request(key: &str) -> ClaimRequest {
    ClaimRequest {
        id: RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).expect("the tests' keys are keys")),
        fingerprint: Fingerprint::from_bytes(&[7]).expect("one byte is enough"),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/payments"),
        spelling: KeySpelling::Bare,
        policy: Arc::new(Policy::gateway(Backend::Plain)),
    }
}

pub(crate) fn repeat(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { owner: Some(Owner::random()), ..request.clone() }
}

pub(crate) fn response(body: &[u8]) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"text/plain"))];
    StoredResponse { status: 201, headers, body: Some(Bytes::copy_from_slice(body)) }
}

pub(crate) async fn acquire(store: &PostgresStore, request: &ClaimRequest) -> Lease {
    match store.claim(request).await.expect("the store works") {
        Claim::Acquired(lease) => lease,
        other => panic!("not acquired but {other:?}"),
    }
}

/// The digest as the primary key.
pub(crate) fn uuid(request: &ClaimRequest) -> uuid::Uuid {
    uuid::Uuid::from_bytes(*request.id.digest().as_bytes())
}

/// Longer than anything takes that does not hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
