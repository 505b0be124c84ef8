//! The server's own clock.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{Backend, Claim, ClaimRequest, ManualClock, Policy, Reaped, Store, Written};

use crate::{
    fixture::{acquire, lasting, open, repeat, request, response},
    server::Server,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_records_end_by_the_servers_clock_and_redis_forgets_them() {
    let server = Server::start(&[]).await;
    let store = open(&server.address(), |_| {});
    let lease = Duration::from_millis(200);
    let idempotent = |key: &str, life: Duration| {
        let policy = Policy::gateway(Backend::Idempotent).into();
        lasting(ClaimRequest { policy, ..request(key) }, lease, life)
    };
    let short = acquire(&store, &idempotent("short", lease * 3)).await;
    let mut connection = server.connect().await;
    let keys = || redis::cmd("KEYS").arg("oncegate:{*}:????????????????????????????????").to_owned();
    let until = Instant::now() + PATIENCE;
    while !keys().query_async::<Vec<String>>(&mut connection).await.unwrap().is_empty() {
        assert!(Instant::now() < until, "Redis forgets what has expired");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.get(short.record).await.unwrap(), None);
    assert_eq!(store.census().await.unwrap(), oncegate_core::Census::default());
    assert_eq!(store.reap(10).await.unwrap().expired, 1, "the index did not forget it by itself");
    assert_eq!(store.reap(10).await.unwrap().expired, 0);

    let first = idempotent("k", Duration::from_hours(1));
    let old = acquire(&store, &first).await;
    assert!(
        old.length == lease && old.fence.get() > 1_700_000_000_000_000,
        "fences are never below the clock: {old:?}"
    );
    let taken = until_acquired(&store, &repeat(&first)).await;
    assert_eq!(taken, 2);
    assert_eq!(store.complete(&old, &response(500)).await.unwrap(), Written::Stale);
}

/// Longer than anything takes that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until it is acquired, and says as which attempt.
async fn until_acquired(store: &impl Store, request: &ClaimRequest) -> u32 {
    let until = Instant::now() + PATIENCE;
    loop {
        match store.claim(request).await.unwrap() {
            Claim::Acquired(lease) => return lease.attempt,
            Claim::InFlight { retry_after } => tokio::time::sleep(retry_after).await,
            other => panic!("{other:?}"),
        }
        assert!(Instant::now() < until, "leases end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_of_the_reaper_is_bounded_within_one_tag_too() {
    let server = Server::start(&[]).await;
    let clock: Arc<ManualClock> = Arc::default();
    let store = open(&server.address(), |options| options.clock = Some(clock.clone()));
    let (lease, retention) = (Duration::from_secs(30), Duration::from_hours(1));
    // Their digests begin with the same byte.
    let requests = (0..).map(|number| request(&format!("k{number}")));
    let neighbours: Vec<_> = requests.filter(|request| request.id.digest().as_bytes()[0] == 0).take(10).collect();
    for (number, request) in neighbours.into_iter().enumerate() {
        let life = if number % 2 == 0 { lease } else { retention };
        acquire(&store, &lasting(request, lease, life)).await;
    }
    clock.advance(lease);
    for expected in [2, 2, 1, 0] {
        assert_eq!(store.reap(2).await.unwrap(), Reaped { expired: expected, doubted: expected });
    }
}
