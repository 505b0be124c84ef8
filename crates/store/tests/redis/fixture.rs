//! A place for records, and what tests ask of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Lease, ManualClock, Operation, Owner,
    Policy, RecordId, Scope, Store, StoredResponse,
};
use oncegate_store::redis::{Options, RedisStore};

use crate::server::{Cluster, Server};

/// Records under a clock that stands still, on a server or a Cluster that lives as long.
#[derive(Clone)]
pub(crate) struct Place {
    servers: Arc<Vec<Server>>,
    address: String,
    pub(crate) clock: Arc<ManualClock>,
}

impl Place {
    /// On a server of its own.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let server = Server::start(settings).await;
        Self { address: server.address(), servers: Arc::new(vec![server]), clock: Arc::default() }
    }

    /// On a Cluster of its own.
    pub(crate) async fn start_cluster() -> Self {
        let cluster = Cluster::start().await;
        Self { address: cluster.address(), servers: Arc::new(cluster.nodes), clock: Arc::default() }
    }

    /// The same without records and under a clock of its own.
    pub(crate) async fn emptied(&self) -> Self {
        for server in &*self.servers {
            redis::cmd("FLUSHALL").exec_async(&mut server.connect().await).await.unwrap();
        }
        Self { clock: Arc::default(), ..self.clone() }
    }

    /// Databases of their own on the same server, each under a clock of its own.
    pub(crate) fn divided(&self, count: usize) -> Vec<Self> {
        let place =
            |number| Self { address: format!("{}/{number}", self.address), clock: Arc::default(), ..self.clone() };
        (0..count).map(place).collect()
    }

    /// What another process has.
    pub(crate) fn open(&self) -> RedisStore {
        open(&self.address, |options| options.clock = Some(self.clock.clone()))
    }
}

/// A store under the server's clock that does not wait for leases of before.
pub(crate) fn open(address: &str, change: impl FnOnce(&mut Options)) -> RedisStore {
    let mut options = Options::default();
    options.cold = Duration::ZERO;
    change(&mut options);
    RedisStore::open(&address.parse().expect("it is an address"), options).expect("the address names no authorities")
}

/// A first request with a key, before a plain backend, with a fresh owner.
pub(crate) fn request(key: &str) -> ClaimRequest {
    ClaimRequest {
        id: RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).unwrap()),
        fingerprint: Fingerprint::from_bytes(&[1]).unwrap(),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/likes"),
        spelling: KeySpelling::Bare,
        policy: Arc::new(Policy::gateway(Backend::Plain)),
    }
}

/// The same request by somebody else.
pub(crate) fn repeat(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { owner: Some(Owner::random()), ..request.clone() }
}

/// The same request for a lease and a life of so long.
pub(crate) fn lasting(request: ClaimRequest, lease: Duration, retention: Duration) -> ClaimRequest {
    let mut policy = Policy::clone(&request.policy);
    (policy.lease, policy.retention) = (lease, retention);
    ClaimRequest { policy: Arc::new(policy), ..request }
}

pub(crate) async fn acquire(store: &RedisStore, request: &ClaimRequest) -> Lease {
    match store.claim(request).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("the claim must be acquired, but: {other:?}"),
    }
}

pub(crate) fn response(status: u16) -> StoredResponse {
    StoredResponse { status, headers: Vec::new(), body: Some(Bytes::from_static(b"{}")) }
}

/// Waits until a replica follows this server.
pub(crate) async fn until_followed(primary: &Server) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut connection = primary.connect().await;
    loop {
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await.unwrap();
        if info.contains("connected_slaves:1") && info.contains("state=online") {
            return;
        }
        assert!(Instant::now() < until, "{info}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
