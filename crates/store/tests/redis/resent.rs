//! Calls that come twice, or after a later one.

use std::sync::Arc;

use oncegate_core::{DoubtReason, Lease, Note, Seen, StateName, Store, StoreError, Written};
use oncegate_store::redis::RedisStore;

use crate::{
    fixture::{acquire, open, repeat, request, response},
    proxy::Proxy,
    server::Server,
};

/// A store behind a proxy.
async fn behind_a_proxy(server: &Server) -> (Proxy, Arc<RedisStore>) {
    let proxy = Proxy::start(server.port()).await;
    let store = Arc::new(open(&proxy.address(), |_| {}));
    // Every script is known to the server afterwards, so that each call is one message.
    let lease = acquire(&store, &request("warm")).await;
    for verb in VERBS {
        let _either = call(&store, verb, &lease).await;
    }
    (proxy, store)
}

const VERBS: [&str; 8] =
    ["extend", "complete", "complete without an owner", "doubt", "release", "withdraw", "resolve", "purge"];

async fn call(store: &RedisStore, verb: &str, lease: &Lease) -> Result<Written, StoreError> {
    let seen = Seen { record: lease.record, fence: lease.fence, state: StateName::InFlight };
    let note = Note::new("ada", "the test says so").unwrap().with_force(true);
    match verb {
        "extend" => store.extend(lease, lease.length * 2).await,
        "complete" => store.complete(lease, &response(201)).await,
        "complete without an owner" => store.complete(&Lease { owner: None, ..lease.clone() }, &response(201)).await,
        "doubt" => store.doubt(lease, &DoubtReason::RESET).await,
        "release" => store.release(lease).await,
        "withdraw" => store.withdraw(lease.record, lease.owner.unwrap()).await,
        "resolve" => store.resolve(seen, &response(202), &note).await,
        "purge" => store.purge(seen, &note).await,
        other => panic!("there is no verb {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_driver_sends_again_is_answered_as_the_first_time() {
    let server = Server::start(&[]).await;
    let (proxy, store) = behind_a_proxy(&server).await;
    for verb in VERBS {
        let lease = acquire(&store, &request(&verb.replace(' ', "-"))).await;
        proxy.double_next_call();
        assert_eq!(call(&store, verb, &lease).await.unwrap(), Written::Done, "{verb}");
        assert!(proxy.has_doubled(), "{verb}");
    }
    let entries = store.audit(0).await.unwrap();
    assert_eq!(entries.len(), 2, "an operator's verb has one entry: {entries:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_the_driver_sends_again_recognises_itself() {
    let server = Server::start(&[]).await;
    let (proxy, store) = behind_a_proxy(&server).await;
    proxy.double_next_call();
    let lease = acquire(&store, &request("k")).await;
    assert!(proxy.has_doubled());
    assert_eq!(lease.attempt, 1);
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_after_its_own_withdrawal_does_not_stand() {
    let server = Server::start(&[]).await;
    let (proxy, store) = behind_a_proxy(&server).await;
    let first = request("k");
    proxy.hold_next_call();
    let claiming = tokio::spawn({
        let (store, first) = (Arc::clone(&store), first.clone());
        async move { store.claim(&first).await }
    });
    proxy.held().await;
    // Its caller gives up.
    claiming.abort();
    proxy.hang_up();
    assert_eq!(store.withdraw(first.id.digest(), first.owner.unwrap()).await.unwrap(), Written::Stale);
    proxy.let_go().await;
    assert_eq!(store.get(first.id.digest()).await.unwrap(), None, "nobody executes for it");
    acquire(&store, &repeat(&first)).await;
}
