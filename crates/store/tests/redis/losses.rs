//! Connections, scripts and data that are lost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{Claim, ClaimRequest, ErrorKind, ManualClock, Store, Written};
use oncegate_store::redis::RedisStore;

use crate::{
    fixture::{acquire, lasting, open, repeat, request, response, until_followed},
    proxy::Proxy,
    server::{Cluster, Server},
};

/// What keeps data over a crash.
const APPENDING: [&str; 2] = ["--appendonly yes", "--appendfsync always"];

/// A server that is slow to notice is not a fault.
const LONG: Duration = Duration::from_secs(60);

/// Claims until the store answers.
async fn claim_when_it_answers(store: &RedisStore, request: &ClaimRequest) -> Claim {
    let until = Instant::now() + LONG;
    loop {
        match store.claim(request).await {
            Ok(claim) => return claim,
            Err(error) => assert!(error.kind() == ErrorKind::Unavailable && Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sees a claim refused because the store is cold; the connection may be lost at first.
async fn assert_cold(store: &RedisStore, request: &ClaimRequest) {
    let until = Instant::now() + LONG;
    loop {
        let error = store.claim(request).await.unwrap_err();
        if error.to_string().contains("Redis is cold") {
            return assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
        assert!(Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A store that is cold for so long, and its clock.
fn cautious(server: &Server) -> (RedisStore, Arc<ManualClock>) {
    let clock: Arc<ManualClock> = Arc::default();
    (cautious_under(&clock, &server.address()), clock)
}

fn cautious_under(clock: &Arc<ManualClock>, address: &str) -> RedisStore {
    open(address, |options| {
        options.cold = COLD;
        options.clock = Some(clock.clone());
    })
}

const COLD: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_which_nothing_is_heard_are_made_anew() {
    let server = Server::start(&[]).await;
    let alone = Proxy::start(server.port()).await;
    let mut proxy = None;
    let cluster = Cluster::start_alone(async |port| proxy.insert(Proxy::start(port).await).port()).await;
    let before = proxy.unwrap();
    let of_cluster = format!("redis-cluster://127.0.0.1:{}", before.port());
    for (proxy, address) in [(&alone, alone.address()), (&before, of_cluster)] {
        let store = open(&address, |options| options.reply_timeout = Duration::from_millis(250));
        assert!(matches!(claim_when_it_answers(&store, &request("before")).await, Claim::Acquired(_)), "{address}");
        proxy.forget_connections();
        assert_eq!(store.claim(&request("lost")).await.unwrap_err().kind(), ErrorKind::Unavailable, "{address}");
        let asked = claim_when_it_answers(&store, &request("after")).await;
        assert!(matches!(asked, Claim::Acquired(_)), "{address}: {asked:?}");
    }
    drop(cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_and_started_again_is_found_again() {
    let mut server = Server::start(&APPENDING).await;
    let store = open(&server.address(), |_| {});
    let (first, open_still) = (request("first"), request("second"));
    let lease = acquire(&store, &first).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    let lease = acquire(&store, &open_still).await;
    server.kill();
    let error = store.claim(&repeat(&first)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.start_again().await;
    let Claim::Completed(completed) = claim_when_it_answers(&store, &repeat(&first)).await else { panic!() };
    assert_eq!(*completed.response, response(201));
    assert_eq!(store.complete(&lease, &response(202)).await.unwrap(), Written::Done, "the lease outlived the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Server::start(&[]).await;
    let store = open(&server.address(), |_| {});
    let mut connection = server.connect().await;
    for key in ["a", "b"] {
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
        let lease = acquire(&store, &request(key)).await;
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
        assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_data_takes_no_new_claims_for_a_lease() {
    let mut server = Server::start(&[]).await;
    let (store, clock) = cautious(&server);
    let first = request("k");
    // An empty server may have lost its data.
    assert_cold(&store, &first).await;
    clock.advance(COLD - Duration::from_micros(1));
    assert_cold(&store, &first).await;
    clock.advance(Duration::from_micros(1));
    let lease = acquire(&store, &first).await;

    redis::cmd("FLUSHALL").exec_async(&mut server.connect().await).await.unwrap();
    assert_cold(&store, &repeat(&first)).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Stale, "it is gone");
    clock.advance(COLD);
    let reborn = acquire(&store, &repeat(&first)).await;
    assert!(reborn.fence > lease.fence, "{reborn:?} after {lease:?}");

    server.start_again().await;
    assert_cold(&store, &repeat(&first)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_data_is_cold_for_all_tags_at_once() {
    let server = Server::start(&[]).await;
    let (store, clock) = cautious(&server);
    // Not each tag from its own first claim, for then the last one would be refused long after.
    store.census().await.unwrap();
    clock.advance(COLD);
    for number in 0..100 {
        acquire(&store, &request(&format!("k{number}"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_kept_its_data_is_cold_after_a_restart_and_replays_meanwhile() {
    let mut server = Server::start(&APPENDING).await;
    let (store, clock) = cautious(&server);
    store.census().await.unwrap();
    clock.advance(COLD);
    let first = request("first");
    let lease = acquire(&store, &first).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    let open_still = acquire(&store, &request("second")).await;
    server.start_again().await;
    let Claim::Completed(_) = claim_when_it_answers(&store, &repeat(&first)).await else { panic!() };
    // It cannot know whether it has all that it acknowledged. What still runs ends as it would.
    for number in 0..20 {
        assert_cold(&store, &request(&format!("new{number}"))).await;
    }
    assert_eq!(store.complete(&open_still, &response(201)).await.unwrap(), Written::Done);
    store.census().await.unwrap();
    clock.advance(COLD);
    acquire(&store, &request("new")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_promoted_replica_takes_no_claims_while_what_it_lacks_may_run() {
    let primary = Server::start(&[]).await;
    let replica = Server::start(&[&format!("--replicaof 127.0.0.1 {}", primary.port())]).await;
    until_followed(&primary).await;
    let (store, clock) = cautious(&primary);
    store.census().await.unwrap();
    clock.advance(COLD);
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(&mut replica.connect().await).await.unwrap();
    let first = request("k");
    acquire(&store, &first).await;
    let mut promoted = cautious_under(&clock, &replica.address());
    assert_eq!(promoted.get(first.id.digest()).await.unwrap(), None, "it lacks the claim");
    assert_cold(&promoted, &repeat(&first)).await;
    clock.advance(COLD);
    acquire(&promoted, &repeat(&first)).await;
    // Switched off it takes at once what may still run elsewhere.
    promoted = open(&replica.address(), |_| {});
    acquire(&promoted, &request("l")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_although_every_record_is_lost() {
    let mut server = Server::start(&[]).await;
    let store = open(&server.address(), |_| {});
    let mut last = 0;
    for round in 0..6 {
        if round % 3 == 2 {
            server.start_again().await;
        } else {
            redis::cmd("FLUSHALL").exec_async(&mut server.connect().await).await.unwrap();
        }
        for _ in 0..20 {
            let Claim::Acquired(lease) = claim_when_it_answers(&store, &request("k")).await else { panic!() };
            assert!(lease.fence.get() > last, "{lease:?} after {last}");
            last = lease.fence.get();
            assert_eq!(store.release(&lease).await.unwrap(), Written::Done);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lost_a_node_answers_again_when_it_is_back() {
    let mut cluster = Cluster::start().await;
    let store = open(&cluster.address(), |options| options.reply_timeout = Duration::from_secs(2));
    // Their leases go on, however long it takes.
    let long = |key: String| lasting(request(&key), Duration::from_hours(1), Duration::from_hours(24));
    let requests: Vec<_> = (0..30).map(|number| long(format!("k{number}"))).collect();
    for request in &requests {
        acquire(&store, request).await;
    }
    cluster.nodes[1].kill();
    let mut refused = 0;
    for request in &requests {
        refused += usize::from(store.claim(&repeat(request)).await.is_err());
    }
    assert!(refused > 0, "a third of the slots is gone");
    cluster.nodes[1].start_again().await;
    for (number, request) in (0..).zip(&requests) {
        // What that node had is lost, for it keeps nothing on disk.
        let claim = claim_when_it_answers(&store, &repeat(request)).await;
        assert!(matches!(claim, Claim::InFlight { .. } | Claim::Acquired(_)), "k{number}: {claim:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_takes_its_records_along_and_is_cold_for_new_ones() {
    let cluster = Cluster::start().await;
    let clock: Arc<ManualClock> = Arc::default();
    let store = cautious_under(&clock, &cluster.address());
    store.census().await.unwrap();
    clock.advance(COLD);
    let tag = |request: &ClaimRequest| request.id.digest().as_bytes()[0];
    let first = request("k");
    let neighbour =
        (0..).map(|number| request(&format!("n{number}"))).find(|request| tag(request) == tag(&first)).unwrap();
    let lease = acquire(&store, &first).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);

    cluster.move_slot_of(&format!("oncegate:{{{:02x}}}:tag", tag(&first)), async || {}).await;
    let Claim::Completed(_) = claim_when_it_answers(&store, &repeat(&first)).await else { panic!() };
    assert_cold(&store, &neighbour).await;
    clock.advance(COLD);
    let next = acquire(&store, &neighbour).await;
    assert!(next.fence > lease.fence, "the last fence of the tag moved along");
    assert_eq!(store.census().await.unwrap().completed, 1);
}
