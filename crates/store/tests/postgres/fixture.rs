//! A database with the schema, and stores on it.

use std::{sync::Arc, time::Duration};

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
}

impl Place {
    /// A server of its own, with these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let server = Server::start(settings).await;
        let client = server.connect().await;
        let address = server.address().parse().expect("it is an address");
        let mut migrator = Migrator::connect(&address).await.expect("the server runs");
        migrator.migrate().await.expect("the database is empty");
        Self { server: Arc::new(server), address, client: Arc::new(client), clock: ClockOffset::default() }
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
        let tables = "TRUNCATE oncegate.records, oncegate.responses, oncegate.audit";
        self.client.batch_execute(tables).await.expect("nobody holds a record any more");
        Self { clock: ClockOffset::default(), ..self.clone() }
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
