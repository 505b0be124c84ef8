//! Cases that are about PostgreSQL, or that it must pass as SQLite does.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;

use crate::{
    harness::{Answer, Database, Gate, post, reply},
    proxy::Proxy,
};

/// What only a claim says.
const CLAIM: &str = "oncegate.claim_batch";

fn not_executed(answer: &Answer) {
    assert!([409, 503].contains(&answer.status), "{answer:?}");
    assert_eq!(answer.header("idempotent-replayed"), None, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_claim_whose_reply_was_lost_is_recognised_and_executed() {
    let database = Database::start();
    let proxy = Proxy::start(database.port()).await;
    let mut gate = Gate::start_on(database.address_at(proxy.port), "").await;
    let (address, refused) = (gate.server.address.clone(), AtomicUsize::new(0));
    for number in 0..4 {
        let request = post("/orders", "{}").key(&format!("K{number}"));
        proxy.lose_next_reply_to(CLAIM);
        // On a machine that commits too slowly for the claim's patience it is given up, and said so: never a 409.
        let meanwhile = |answer: &Answer| {
            answer.problem(503, "store-unavailable");
            refused.fetch_add(1, Ordering::SeqCst);
        };
        let (sent, call) = gate.until_executed(&address, &request, meanwhile).await;
        assert!(proxy.has_lost(), "no reply was lost");
        assert_eq!(call.header("oncegate-attempt"), Some("1"));
        gate.repeat(request.clone()).await.problem(409, "in-flight");
        call.answer(reply(201, "ordered"));
        sent.await.unwrap().is_executed(201, "ordered");
        gate.repeat(request).await.is_replay_of(201, "ordered");
    }
    assert_eq!(gate.executions(), 4);
    assert!(refused.load(Ordering::SeqCst) < 4, "no claim was recognised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c74_while_postgresql_is_down_nothing_with_a_key_is_executed() {
    let mut database = Database::start();
    let mut gate = Gate::start_on(database.address(), "").await;
    let (payroll, late) = (post("/payroll", "{}"), post("/payroll", "{}").key("K2"));
    let sent = gate.send(late.clone());
    let call = gate.service.call().await;
    database.stop();
    let refused = gate.repeat(payroll.clone()).await;
    assert_eq!(refused.problem(503, "store-unavailable")["retry"], "same-key");
    assert!(refused.header("retry-after").is_some());
    let keyless = post("/payroll", "{}").without("idempotency-key");
    gate.exchange(keyless, reply(201, "unguarded")).await.is_executed(201, "unguarded");
    let read = post("/payroll", "").method(Method::GET).without("content-type");
    gate.exchange(read, reply(200, "read")).await.is_executed(200, "read");
    // Executed before, and lost in between: the client gets its answer, and the record waits for the store.
    call.answer(reply(201, "paid late"));
    sent.await.unwrap().is_executed(201, "paid late");
    not_executed(&gate.repeat(late.clone()).await);

    database.start_again();
    let address = gate.server.address.clone();
    let (sent, call) = gate.until_executed(&address, &payroll, not_executed).await;
    assert_eq!(call.header("oncegate-attempt"), Some("1"));
    call.answer(reply(201, "paid"));
    sent.await.unwrap().is_executed(201, "paid");
    gate.repeat(payroll).await.is_replay_of(201, "paid");
    loop {
        let answer = gate.repeat(late.clone()).await;
        if answer.status == 201 {
            break answer.is_replay_of(201, "paid late");
        }
        not_executed(&answer);
    }
    assert_eq!(gate.executions(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c79_repeats_that_wait_hold_no_connection_to_postgresql() {
    let database = Database::start();
    let mut gate = Gate::start_on(database.address(), "[defaults]\nwait = \"30s\"\n").await;
    let other = gate.another("[defaults]\nwait = \"30s\"\n").await;
    let addresses = [gate.server.address.clone(), other.address.clone()];
    let slow = post("/orders", "{}");
    let first = gate.send(slow.clone());
    let running = gate.service.call().await;
    let waiting: Vec<_> = (0..50).map(|number| gate.send_to(&addresses[number % 2], slow.clone())).collect();
    for key in ["K2", "K3", "K4", "K5", "K6"] {
        gate.exchange(post("/orders", "{}").key(key), reply(201, key)).await.is_executed(201, key);
    }
    let keyless = post("/orders", "{}").without("idempotency-key");
    gate.exchange(keyless, reply(201, "unguarded")).await.is_executed(201, "unguarded");
    let ours = "FROM pg_stat_activity WHERE application_name = 'oncegate'";
    let connections: u32 = database.execute(&format!("SELECT count(*) {ours}")).parse().unwrap();
    assert!(connections <= 6, "three for each gateway, however many wait: {connections}");
    let open =
        format!("SELECT count(*) {ours} AND state = 'idle in transaction' AND xact_start < now() - interval '1 s'");
    assert_eq!(database.execute(&open), "0", "no transaction waits for an execution");
    running.answer(reply(201, "ordered"));
    first.await.unwrap().is_executed(201, "ordered");
    for repeat in waiting {
        repeat.await.unwrap().is_replay_of(201, "ordered");
    }
    assert_eq!(gate.executions(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c81_two_gateways_on_one_database_are_one_guard() {
    let database = Database::start();
    let mut gate = Gate::start_on(database.address(), "").await;
    let other = gate.another("").await;
    gate.exchange(post("/settle", "{}"), reply(201, "settled")).await.is_executed(201, "settled");
    gate.repeat_at(&other.address, post("/settle", "{}")).await.is_replay_of(201, "settled");

    let settle = post("/settle", "{}").key("K2");
    let (mut one, mut two) = (gate.send(settle.clone()), gate.send_to(&other.address, settle));
    let call = gate.service.call().await;
    let (refused, executing) = tokio::select! {
        answer = &mut one => (answer, two),
        answer = &mut two => (answer, one),
    };
    refused.unwrap().problem(409, "in-flight");
    call.answer(reply(201, "settled once"));
    executing.await.unwrap().is_executed(201, "settled once");
    assert_eq!(gate.executions(), 2);
}
