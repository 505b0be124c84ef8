//! A shop: a database with the schema and a table of payments, and a store as the layer has it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Lease, Operation, Owner, Policy, RecordId,
    Scope, Store, StoredResponse,
};
use oncegate_store::postgres::{ClockOffset, Options, PostgresStore};
use tokio_postgres::Client;

use crate::server::Server;

pub(crate) struct Shop {
    pub(crate) server: Server,
    /// What looks at the tables.
    pub(crate) client: Client,
    pub(crate) store: PostgresStore,
    clock: ClockOffset,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let server = Server::migrated().await;
        let client = server.connect().await;
        client.batch_execute("CREATE TABLE payments (key text)").await.unwrap();
        let clock = ClockOffset::default();
        let mut options = Options::default();
        options.clock_offset = clock.clone();
        let store = PostgresStore::open(&server.address().parse().unwrap(), options);
        Self { server, client, store, clock }
    }

    /// Acquires this key, or takes it over.
    pub(crate) async fn acquire(&self, key: &str) -> Lease {
        match self.claim(key).await {
            Claim::Acquired(lease) => lease,
            other => panic!("not acquired but {other:?}"),
        }
    }

    pub(crate) async fn claim(&self, key: &str) -> Claim {
        let request = ClaimRequest {
            id: RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).unwrap()),
            fingerprint: Fingerprint::from_bytes(&[7]).unwrap(),
            owner: Some(Owner::random()),
            operation: Operation::new("POST", "/payments"),
            spelling: KeySpelling::Bare,
            policy: Arc::new(Policy::layer(Backend::Transactional)),
        };
        self.store.claim(&request).await.unwrap()
    }

    /// Ends every lease that was given so far.
    pub(crate) fn end_leases(&self) {
        self.clock.advance(Duration::from_secs(31));
    }

    /// What a repeat of this key is answered with.
    pub(crate) async fn replay(&self, key: &str) -> StoredResponse {
        match self.claim(key).await {
            Claim::Completed(completed) => (*completed.response).clone(),
            other => panic!("not completed but {other:?}"),
        }
    }

    pub(crate) async fn payments(&self, key: &str) -> i64 {
        self.client.query_one("SELECT count(*) FROM payments WHERE key = $1", &[&key]).await.unwrap().get(0)
    }
}

/// With every kind of byte that a response may have.
pub(crate) fn response() -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), Bytes::from_static(b"application/json")),
        ("location".to_owned(), Bytes::from_static(b"/payments/\xe9")),
    ];
    StoredResponse { status: 201, headers, body: Some(Bytes::from_static(b"\x00\xff{}")) }
}

impl Shop {
    /// Waits until somebody waits for a row.
    pub(crate) async fn await_a_waiting_lock(&self) {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        let seen = async {
            while self.client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.expect("nobody waits");
    }
}
