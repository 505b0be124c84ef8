//! A Cluster in front whose masters are killed, fail over, or lose a slot: PostgreSQL decides, and nothing executes twice.

use std::sync::Arc;

use oncegate_core::Store;
use oncegate_store::tiered::Options;

use super::place::Place;
use crate::{
    load::{Round, TAGS, Tally, around, kills, moves},
    server::Cluster,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_cluster_in_front_may_lose_what_it_likes_and_nothing_executes_twice() {
    let mut cluster = Cluster::start_with_replicas().await;
    let place = Place::start().await.behind(&cluster.address());
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..2 {
        stores.push(Arc::new(place.open_with(Options::default()).await));
    }
    let stores = <[_; 2]>::try_from(stores).unwrap_or_else(|_| unreachable!("there are two"));
    let mut seen = [(); 3].map(|()| Tally::default());
    for number in 0..kills(1) {
        let killing = async |round: &Round| {
            let master = cluster.master(number).await;
            // What is confirmed from here on the replica never hears of.
            cluster.cut_off(master).await;
            round.until_answered(60).await;
            cluster.kill_master(master).await;
        };
        seen[0] += around(&stores, &format!("killed-{number}"), killing).await;
    }
    for number in 0..moves() {
        let tag = format!("{{{:02x}}}", number % usize::from(TAGS));
        let moving = async |round: &Round| cluster.move_slot_of(&tag, async || round.until_answered(30).await).await;
        seen[1] += around(&stores, &format!("over-{number}"), async |_| cluster.fail_over(number).await).await;
        seen[2] += around(&stores, &format!("moved-{number}"), moving).await;
    }
    for (what, seen) in ["a master killed", "failed over", "a slot moved"].iter().zip(&seen) {
        eprintln!("{what}: {seen}");
        assert_eq!(seen.twice, 0, "{what}");
        assert!(seen.replayed >= seen.keys, "{what}: it goes on with what Redis knows, and without it");
    }
}
