//! A Cluster in front whose masters are killed, fail over, or lose a slot: PostgreSQL decides, and nothing executes twice.

use std::sync::Arc;

use oncegate_core::Store;
use oncegate_store::tiered::Options;

use super::{
    outbox,
    place::{Place, until},
};
use crate::{
    load::{Round, TAGS, Tally, around, kills, moves},
    server::Cluster,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_cluster_in_front_may_lose_what_it_likes_and_nothing_executes_twice() {
    let mut cluster = Cluster::start_with_replicas().await;
    let place = Place::start().await.behind(&cluster.address());
    play(&mut cluster, &place, Options::default()).await;
    play(&mut cluster, &place.with_outbox(), outbox::hasty()).await;
}

async fn play(cluster: &mut Cluster, place: &Place, options: Options) {
    let mode = if place.wants_outbox() { "outbox" } else { "authoritative" };
    let opened = [place.open_with(options.clone()).await, place.open_with(options).await].map(Arc::new);
    let stores = opened.each_ref().map(|store| Arc::clone(store) as Arc<dyn Store>);
    let ready = async || {
        until("there is an outbox, where one is wanted", async || {
            // One that had to be closed again and again is opened later each time, which takes no less than it takes here.
            place.sql("UPDATE oncegate.front SET rest = '0 s'").await;
            opened.iter().all(|store| store.has_outbox() == place.wants_outbox())
        })
        .await;
    };
    let mut seen = [(); 3].map(|()| Tally::default());
    for number in 0..kills(1) {
        let killing = async |round: &Round| {
            let master = cluster.master(number).await;
            // What is confirmed from here on the replica never hears of.
            cluster.cut_off(master).await;
            round.until_answered(60).await;
            cluster.kill_master(master).await;
        };
        ready().await;
        seen[0] += around(&stores, &format!("{mode}-killed-{number}"), killing).await;
    }
    for number in 0..moves() {
        let tag = format!("{{{:02x}}}", number % usize::from(TAGS));
        let moving = async |round: &Round| cluster.move_slot_of(&tag, async || round.until_answered(30).await).await;
        ready().await;
        seen[1] += around(&stores, &format!("{mode}-over-{number}"), async |_| cluster.fail_over(number).await).await;
        ready().await;
        seen[2] += around(&stores, &format!("{mode}-moved-{number}"), moving).await;
    }
    for (what, seen) in ["a master killed", "failed over", "a slot moved"].iter().zip(&seen) {
        eprintln!("{mode}, {what}: {seen}");
        assert_eq!(seen.twice, 0, "{mode}, {what}");
        assert!(seen.replayed >= seen.keys, "{mode}, {what}: it goes on with what Redis knows, and without it");
    }
}
