//! Redis killed again and again while many claim the same keys: PostgreSQL decides, and nothing executes twice.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use oncegate_core::{Claim, ClaimRequest, Lease, Store, Written};
use oncegate_store::tiered::{Options, TieredStore};

use super::place::{PATIENCE, Place, until};
use crate::fixture::{request, response};

/// How many claim at the same time; each key is claimed by all of them.
const CALLERS: usize = 16;

/// After what failed.
const PAUSE: Duration = Duration::from_millis(20);

/// What the callers have in common.
#[derive(Default)]
pub(super) struct Load {
    is_over: AtomicBool,
    /// How often each key was executed.
    executed: Mutex<HashMap<String, u32>>,
    replayed: AtomicUsize,
    failed: AtomicUsize,
    answered: AtomicUsize,
}

impl Load {
    /// Goes from key to key until the end; a key is left when it is replayed.
    async fn run(&self, store: &Arc<TieredStore>) {
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let key = format!("k{number}");
            self.answered.fetch_add(1, Ordering::Relaxed);
            let request = request(&key);
            match store.claim(&request).await {
                Ok(Claim::Acquired(lease)) => {
                    *self.executed.lock().unwrap().entry(key).or_default() += 1;
                    tokio::task::yield_now().await;
                    complete(store, &lease).await;
                }
                Ok(Claim::Completed(_)) => {
                    self.replayed.fetch_add(1, Ordering::Relaxed);
                    number += 1;
                }
                Ok(Claim::InFlight { .. }) => tokio::task::yield_now().await,
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    // As the layer does: the claim may stand all the same.
                    if !error.is_unapplied() {
                        tokio::spawn(withdraw(Arc::clone(store), request));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// As a gateway does: until it is stored.
async fn complete(store: &TieredStore, lease: &Lease) {
    let until = Instant::now() + lease.length;
    loop {
        match store.complete(lease, &response(201)).await {
            Ok(written) => return assert_eq!(written, Written::Done),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn withdraw(store: Arc<TieredStore>, request: ClaimRequest) {
    let until = Instant::now() + request.policy.lease;
    while store.withdraw(request.id.digest(), request.owner.unwrap()).await.is_err() && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_redis_that_is_killed_again_and_again_lets_nothing_execute_twice() {
    let mut options = Options::default();
    // What a busy PostgreSQL costs is none of its business.
    options.timeout = PATIENCE;
    let load = kill_again_and_again(Place::start().await, options, 4).await;
    let failed = load.failed.load(Ordering::Relaxed);
    assert!(failed * 10 <= load.answered.load(Ordering::Relaxed), "a Redis that is gone costs time, and no answers");
}

/// `ONCEGATE_KILLS` times, or so few.
pub(super) async fn kill_again_and_again(place: Place, options: Options, few: usize) -> Arc<Load> {
    let kills = crate::load::kills(few);
    let stores = [place.open_with(options.clone()).await, place.open_with(options).await];
    let stores = stores.map(Arc::new);
    let load = Arc::<Load>::default();
    let callers = (0..CALLERS).map(|caller| {
        let (load, store) = (Arc::clone(&load), Arc::clone(&stores[caller % 2]));
        tokio::spawn(async move { load.run(&store).await })
    });
    let callers: Vec<_> = callers.collect();
    for _ in 0..kills {
        until("there is an outbox, where one is wanted", async || stores[0].has_outbox() == place.wants_outbox()).await;
        for is_up in [true, false] {
            let before = load.replayed.load(Ordering::Relaxed);
            let what = if is_up { "it goes on with Redis" } else { "it goes on without Redis" };
            until(what, async || load.replayed.load(Ordering::Relaxed) > before + 4 * CALLERS).await;
            let mut redis = place.redis.lock().await;
            if is_up { redis.kill() } else { redis.start_again().await }
        }
    }
    load.is_over.store(true, Ordering::Relaxed);
    assert!(join_all(callers).await.into_iter().all(|ended| ended.is_ok()));
    let executed = load.executed.lock().unwrap();
    let twice: Vec<_> = executed.iter().filter(|(_, times)| **times != 1).collect();
    let (replayed, failed) = (load.replayed.load(Ordering::Relaxed), load.failed.load(Ordering::Relaxed));
    eprintln!(
        "{kills} kills, {} keys executed, {} twice, {replayed} replays, {failed} failures",
        executed.len(),
        twice.len()
    );
    assert!(twice.is_empty(), "{twice:?}");
    drop(executed);
    load
}
