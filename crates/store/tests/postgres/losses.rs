//! Connections that are lost: what became of a verb is found out, and nothing overtakes what is still being committed.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use oncegate_core::{
    Claim, ClaimRequest, DoubtReason, ErrorKind, Lease, Note, Seen, StateName, Store, StoreError, Written,
};
use oncegate_store::postgres::{Options, PostgresStore};
use tokio::time::timeout;

use crate::{
    fixture::{PATIENCE, Place, acquire, repeat, request, response},
    proxy::Proxy,
};

/// A store behind a proxy, with one connection for all verbs.
struct Line {
    place: Place,
    proxy: Proxy,
    store: PostgresStore,
}

impl Line {
    async fn start() -> Self {
        let place = Place::start(&[]).await;
        let proxy = Proxy::start(place.port()).await;
        let mut options = Options::default();
        options.lanes = 1;
        let store = place.through(&proxy.address()).open_with(options);
        Self { place, proxy, store }
    }

    /// A new record in flight.
    async fn lease(&self, key: &str) -> Lease {
        acquire(&self.store, &request(key)).await
    }

    /// The answer of a verb that the server committed and whose connection was lost then.
    async fn lost<T>(&self, verb: impl Future<Output = Result<T, StoreError>>) -> T {
        self.proxy.lose_next_reply_to("");
        let answer = timeout(PATIENCE, verb).await.expect("it is answered").expect("it is found out");
        assert!(self.proxy.has_lost(), "no reply was lost");
        answer
    }

    /// What the record says to a repeat.
    async fn repeated(&self, key: &str) -> Claim {
        self.place.open().claim(&repeat(&request(key))).await.unwrap()
    }
}

fn seen(lease: &Lease, state: StateName) -> Seen {
    Seen { record: lease.record, fence: lease.fence, state }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_verb_whose_reply_was_lost_is_known_to_have_been_done() {
    let line = Line::start().await;
    let (store, note) = (&line.store, Note::new("ada", "a charge exists").unwrap());
    let forced = note.clone().with_force(true);
    let claimed = line.lost(store.claim(&request("claim"))).await;
    assert!(matches!(claimed, Claim::Acquired(lease) if lease.attempt == 1));

    let lease = line.lease("extend").await;
    assert_eq!(line.lost(store.extend(&lease, Duration::from_secs(60))).await, Written::Done);
    let lease = line.lease("complete").await;
    assert_eq!(line.lost(store.complete(&lease, &response(b"paid"))).await, Written::Done);
    assert!(matches!(line.repeated("complete").await, Claim::Completed(_)));
    let lease = line.lease("doubt").await;
    assert_eq!(line.lost(store.doubt(&lease, &DoubtReason::RESET)).await, Written::Done);
    assert!(matches!(line.repeated("doubt").await, Claim::Unknown(_)));
    let lease = line.lease("release").await;
    assert_eq!(line.lost(store.release(&lease)).await, Written::Done);
    assert!(matches!(line.repeated("release").await, Claim::Acquired(lease) if lease.attempt == 1));
    let lease = line.lease("withdraw").await;
    let withdrawn = line.lost(store.withdraw(lease.record, lease.owner.unwrap())).await;
    assert_eq!(withdrawn, Written::Stale, "nothing is left to withdraw");
    assert!(matches!(line.repeated("withdraw").await, Claim::Acquired(lease) if lease.attempt == 1));
    let lease = line.lease("resolve").await;
    let resolved = line.lost(store.resolve(seen(&lease, StateName::InFlight), &response(b"paid"), &note)).await;
    assert_eq!(resolved, Written::Done);
    assert!(matches!(line.repeated("resolve").await, Claim::Completed(_)));
    let lease = line.lease("purge").await;
    assert_eq!(line.lost(store.purge(seen(&lease, StateName::InFlight), &forced)).await, Written::Done);
    assert_eq!(store.audit(10).await.unwrap().len(), 2, "each is noted once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_others_did_is_not_taken_for_ones_own_work_after_a_loss() {
    let line = Line::start().await;
    let (store, other) = (&line.store, line.place.open());
    let note = Note::new("ada", "a charge exists").unwrap().with_force(true);
    let lease = line.lease("completed").await;
    assert_eq!(other.complete(&lease, &response(b"paid")).await.unwrap(), Written::Done);
    assert_eq!(line.lost(store.release(&lease)).await, Written::Stale);
    assert_eq!(line.lost(store.doubt(&lease, &DoubtReason::RESET)).await, Written::Stale);
    let resolved = line.lost(store.resolve(seen(&lease, StateName::InFlight), &response(b"paid"), &note)).await;
    assert_eq!(resolved, Written::Stale, "the execution itself completed it");
    assert_eq!(line.lost(store.purge(seen(&lease, StateName::Unknown), &note)).await, Written::Stale);
    let lease = line.lease("by-its-backend").await;
    let complete = "SELECT oncegate.complete($1, $2, 201, '[]', '')";
    let record = uuid::Uuid::from_bytes(*lease.record.as_bytes());
    line.place.connect().await.execute(complete, &[&record, &lease.fence.get()]).await.unwrap();
    let resolved = line.lost(store.resolve(seen(&lease, StateName::InFlight), &response(b"paid"), &note)).await;
    assert_eq!(resolved, Written::Stale);
    let lease = line.lease("purged").await;
    let others = Note::new("bob", "a charge exists").unwrap().with_force(true);
    assert_eq!(other.purge(seen(&lease, StateName::InFlight), &others).await.unwrap(), Written::Done);
    assert_eq!(line.lost(store.purge(seen(&lease, StateName::InFlight), &note)).await, Written::Stale);
    let lease = line.lease("doubted").await;
    assert_eq!(other.doubt(&lease, &DoubtReason::TIMEOUT).await.unwrap(), Written::Done);
    assert_eq!(line.lost(store.doubt(&lease, &DoubtReason::RESET)).await, Written::Stale);
    assert_eq!(line.lost(store.release(&lease)).await, Written::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_in_silence_is_left_also_when_nobody_waits_for_it() {
    let place = Place::start(&[]).await;
    let proxy = Proxy::start(place.port()).await;
    let mut options = Options::default();
    options.reply_timeout = Duration::from_millis(300);
    let store = place.through(&proxy.address()).open_with(options);
    let answered = async { while store.census().await.is_err() {} };
    timeout(PATIENCE, answered).await.expect("it never answers");
    proxy.silence();
    let asking = async { while timeout(Duration::from_millis(100), store.census()).await.is_err() {} };
    timeout(PATIENCE, asking).await.expect("it is asked for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_takes_connections_and_says_nothing_is_passed_over() {
    let place = Place::start(&[]).await;
    // The system takes what nobody accepts.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let first = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let hosts = [first.clone(), format!("{first},127.0.0.1:{}", place.port())];
    let [alone, with_another] = hosts.map(|hosts| {
        place.through(&format!("postgres://postgres@{hosts}/postgres?connect_timeout=1&sslmode=disable")).open()
    });
    let key = request("k");
    // What is left for the other host is little on a busy machine.
    let acquired = async { while !matches!(with_another.claim(&key).await, Ok(Claim::Acquired(_))) {} };
    let claims = async { tokio::join!(alone.claim(&key), acquired) };
    let (alone, ()) = timeout(PATIENCE, claims).await.expect("it is waited for for ever");
    let error = alone.unwrap_err();
    assert_eq!(error.to_string(), "PostgreSQL takes connections and does not answer");
    assert!(error.is_unapplied(), "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_withdrawal_does_not_overtake_a_claim_that_is_still_being_committed() {
    let line = Line::start().await;
    let (store, proxy) = (&line.store, &line.proxy);
    let mut number = 0;
    let claimed: ClaimRequest = loop {
        number += 1;
        let claimed = request(&format!("k{number}"));
        proxy.hold_next_commit();
        let ((), told) = tokio::join!(proxy.held(), store.claim(&claimed));
        match told {
            Err(error) => {
                assert!(!error.is_unapplied(), "a caller that believed it would not withdraw the claim");
                break claimed;
            }
            // The server was so slow that the claim came there a second time before the first was at work.
            Ok(Claim::Acquired(_)) => proxy.let_go(),
            Ok(other) => panic!("of its own claim it was told {other:?}"),
        }
    };

    // It is tried again for two seconds by itself, and by its caller after that.
    let withdrawing = async {
        loop {
            match store.withdraw(claimed.id.digest(), claimed.owner.unwrap()).await {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                Ok(written) => return written,
            }
        }
    };
    tokio::pin!(withdrawing);
    let early = timeout(Duration::from_millis(100), &mut withdrawing).await;
    assert!(early.is_err(), "the claim is not committed yet, and nobody can say that it is not there: {early:?}");
    proxy.let_go();
    let withdrawn = timeout(PATIENCE, withdrawing).await.expect("it ends");
    assert_eq!(withdrawn, Written::Done);
    assert!(matches!(line.repeated(claimed.id.key().as_str()).await, Claim::Acquired(lease) if lease.attempt == 1));
}
