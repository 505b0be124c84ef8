//! A Redis alone that is killed, fails over or is rearranged under load: what is executed twice is counted, and never
//! are two at work at once. `ONCEGATE_KILLS=200 ONCEGATE_MOVES=200` plays what
//! `docs/redis.md` reports, with `ONCEGATE_WAIT_REPLICAS=1` as well.

use std::sync::Arc;

use oncegate_core::Store;

use crate::{
    fixture::open,
    load::{LEASE, Round, TAGS, Tally, around, kills, moves},
    server::{Cluster, Server},
};

/// How often what is refused during one move may be missed.
const MISSED_MAX: usize = 4;

/// What two gateways have.
fn stores(address: &str, wait_replicas: u32) -> [Arc<dyn Store>; 2] {
    [(); 2].map(|()| {
        let store = open(address, |options| (options.cold, options.wait_replicas) = (LEASE, wait_replicas));
        Arc::new(store) as Arc<dyn Store>
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_redis_that_is_killed_executes_again_what_it_lost_and_never_two_at_once() {
    for settings in [&[][..], &["--appendonly yes"]] {
        let mut server = Server::start(settings).await;
        let stores = stores(&server.address(), 0);
        let mut seen = Tally::default();
        for number in 0..kills(1) {
            seen += around(&stores, &number.to_string(), async |_| server.start_again().await).await;
        }
        eprintln!("killed and started again, with {settings:?}: {seen}");
        assert_eq!(seen.overlapping, 0, "a cold Redis waits for leases that it may have lost");
        assert!(seen.twice > 0 || !settings.is_empty(), "without a file every record is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_cluster_executes_nothing_twice_that_it_has_not_lost() {
    let mut cluster = Cluster::start_with_replicas().await;
    let wait_replicas = std::env::var("ONCEGATE_WAIT_REPLICAS").map_or(0, |count| count.parse().unwrap());
    let stores = stores(&cluster.address(), wait_replicas);
    // A replica that has everything hardly ever loses something, so a few times say little.
    for (replica, few) in [("a", 0), ("a lagging", 1)] {
        let mut seen = Tally::default();
        for number in 0..kills(few) {
            let killing = async |round: &Round| {
                let master = cluster.master(number).await;
                if few > 0 {
                    cluster.cut_off(master).await;
                    round.until_answered(60).await;
                }
                cluster.kill_master(master).await;
            };
            seen += around(&stores, &format!("killed-{few}-{number}"), killing).await;
        }
        eprintln!("a master killed and {replica} replica promoted, with wait_replicas = {wait_replicas}: {seen}");
        assert_eq!(seen.overlapping, 0, "a promoted replica waits for leases that it may lack");
    }
    let mut seen = Tally::default();
    for number in 0..moves() {
        seen += around(&stores, &format!("over-{number}"), async |_| cluster.fail_over(number).await).await;
    }
    eprintln!("failed over: {seen}");
    assert_eq!(seen.twice, 0, "nothing is lost");
    let (mut seen, mut number) = (Tally::default(), 0);
    // What is refused for a moment may be missed on a busy machine.
    while number < moves() || seen.refused == 0 && number < moves() + MISSED_MAX {
        let tag = format!("{{{:02x}}}", number % usize::from(TAGS));
        let moving = async |round: &Round| cluster.move_slot_of(&tag, async || round.until_answered(30).await).await;
        seen += around(&stores, &format!("moved-{number}"), moving).await;
        number += 1;
    }
    eprintln!("a slot moved: {seen}");
    assert_eq!(seen.twice, 0, "nothing is lost");
    assert!(seen.refused > 0, "what moves answers nobody");
}
