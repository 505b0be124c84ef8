//! Two gateways on one database: a storm of repeats across both, and what repeats leave behind there.
//!
//! `ONCEGATE_STORM_FULL=1` sends 300 repeats of each of 100 keys.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::task::JoinSet;

use crate::harness::{Database, Gate, Sender, Sent, post, reply};

/// Clients at once.
const CLIENTS: usize = 32;

/// Keys, and how often each is sent.
fn size() -> (usize, usize) {
    if std::env::var_os("ONCEGATE_STORM_FULL").is_some() { (100, 300) } else { (20, 60) }
}

fn order(key: usize) -> Sent {
    post("/orders", r#"{"qty":1}"#).key(&format!("order-{key}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_executions_as_keys_come_of_a_storm_across_two_gateways() {
    let database = Database::start();
    let mut gate = Gate::start_on(database.address(), "").await;
    let other = gate.another("").await;
    let addresses = [gate.server.address.clone(), other.address.clone()];
    let (keys, repeats) = size();
    let (next, sender) = (Arc::new(AtomicUsize::new(0)), Sender::new());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (next, sender, addresses) = (Arc::clone(&next), sender.clone(), addresses.clone());
        clients.spawn(async move {
            let mut seen = HashMap::new();
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= keys * repeats {
                    return seen;
                }
                // Neighbours go to different gateways, and the repeats of one key come together.
                let answer = sender.send(&addresses[number % 2], order(number / repeats)).await;
                let replayed = answer.header("idempotent-replayed").is_some();
                match answer.status {
                    201 => assert_eq!(answer.text(), format!("order-{}", number / repeats)),
                    _ => drop(answer.problem(409, "in-flight")),
                }
                *seen.entry((answer.status, replayed)).or_insert(0) += 1;
            }
        });
    }
    let answering = async {
        for _ in 0..keys {
            let call = gate.service.call().await;
            let key = call.header("idempotency-key").unwrap().to_owned();
            call.answer(reply(201, &key));
        }
    };
    let (seen, ()) = tokio::join!(clients.join_all(), answering);
    let mut sum = HashMap::new();
    for (what, count) in seen.into_iter().flatten() {
        *sum.entry(what).or_insert(0) += count;
    }
    eprintln!("{keys} keys, {repeats} times each: (status, replayed) {sum:?}, {} executions", gate.executions());
    assert_eq!(gate.executions(), keys);
    assert_eq!(sum[&(201, false)], keys);
    assert_eq!(database.execute("SELECT count(*) FROM oncegate.records WHERE state = 'completed'"), keys.to_string());
    for key in 0..keys {
        for address in &addresses {
            gate.repeat_at(address, order(key)).await.is_replay_of(201, &format!("order-{key}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeats_at_a_cold_gateway_write_nothing() {
    let database = Database::start();
    let mut gate = Gate::start_on(database.address(), "").await;
    gate.exchange(order(1), reply(201, "order-1")).await.is_executed(201, "order-1");
    let running = gate.send(order(2));
    let call = gate.service.call().await;
    let versions = "SELECT xmin, xmax, ctid FROM oncegate.records ORDER BY record";
    let before = database.execute(versions);
    assert_eq!(before.lines().count(), 2, "{before}");
    for _ in 0..2 {
        let cold = gate.another("").await;
        for _ in 0..2 {
            gate.repeat_at(&cold.address, order(1)).await.is_replay_of(201, "order-1");
            gate.repeat_at(&cold.address, order(2)).await.problem(409, "in-flight");
            gate.repeat_at(&cold.address, order(1).body("{}")).await.problem(422, "mismatch");
        }
    }
    assert_eq!(database.execute(versions), before);
    call.answer(reply(201, "order-2"));
    running.await.unwrap().is_executed(201, "order-2");
}
