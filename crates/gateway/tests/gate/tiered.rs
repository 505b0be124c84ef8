//! `oncegate serve` on PostgreSQL with Redis in front.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    backend::Backend,
    http::pay,
    process::{Gate, PATIENCE, run, text},
    servers::{postgres::PostgresServer, redis::RedisServer},
};

/// How soon what an operator does must be seen in every gate.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn gates_and_operators_share_a_front_and_the_store_behind_it() {
    let mut server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let redis = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]).unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let (front, backend) = (redis.address(), Backend::prompt());
    let both = ["--store", &store, "--front", &front];
    let start = || Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &both, &[]);
    let (one, other) = (start(), start());
    assert!(one.seen().join("\n").contains(&format!("behind {front}")), "{:?}", one.seen());
    for key in ["k1", "k2"] {
        let (first, repeat) = (pay(&one.address, key), pay(&other.address, key));
        assert_eq!((first.status(), first.field("idempotent-replayed")), (201, None));
        assert_eq!((repeat.status(), repeat.field("idempotent-replayed")), (201, Some("true")));
    }
    assert_eq!(backend.executions(), 2, "one for both");

    let directory = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = run(directory.path(), arguments, &[]);
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let url = backend.url();
    let (code, checked) = said(&[&["check", "--upstream", &url], &both[..]].concat());
    assert_eq!(code, Some(0), "{checked}");
    assert!(checked.contains(&format!("front {front}, authoritative, generation ")), "{checked}");
    for without in [["check", "--upstream", &url], ["serve", "--upstream", &url], ["records", "list", "--json"]] {
        let (code, refused) = said(&[&without[..], &["--store", &store]].concat());
        assert_eq!(code, Some(1), "{refused}");
        assert!(refused.contains(&format!("add --front {front}")) && !refused.contains(password), "{refused}");
    }
    let (code, refused) = said(&["records", "list", "--store", &store, "--front", "redis://127.0.0.1:1"]);
    assert!(code == Some(1) && refused.contains("is not the front that its gateways have"), "{refused}");

    let (_, listed) = said(&[&["records", "list", "--json"], &both[..]].concat());
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let record = listed.iter().find(|record| record["key"] == "k1").unwrap_or_else(|| panic!("{listed:?}"));
    let (digest, fence) = (record["record"].as_str().unwrap(), record["fence"].to_string());
    let purge = ["records", "purge", digest, "--fence", &fence, "--operator", "ada", "--reason", "wrong"];
    let (code, purged) = said(&[&purge[..], &both[..]].concat());
    assert_eq!(code, Some(0), "{purged}");
    let (began, mut asked) = (Instant::now(), Duration::ZERO);
    while pay(&other.address, "k1").field("idempotent-replayed").is_some() {
        assert!(asked < SEEN_WITHIN, "a purge is not seen");
        asked = began.elapsed();
    }
    assert_eq!(backend.executions(), 1, "what was purged");

    // Started on what the front knows; then PostgreSQL goes.
    let fresh = start();
    server.stop();
    let (known, new) = (pay(&fresh.address, "k2"), pay(&fresh.address, "k3"));
    assert_eq!((known.status(), known.field("idempotent-replayed")), (201, Some("true")));
    assert_eq!((new.status(), new.field("retry-after").is_some()), (503, true));
    assert_eq!(backend.executions(), 0);

    server.start_again().unwrap();
    server.execute("shop", "DELETE FROM oncegate.front;").unwrap();
    let (code, listed) = said(&["records", "list", "--store", &store]);
    assert_eq!(code, Some(0), "who has forgotten its front needs none: {listed}");
}

#[test]
fn a_gate_that_is_killed_leaves_nothing_in_its_outbox() {
    const KEYS: usize = 40;
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    let (redis, backend) = (RedisServer::start(&[]).unwrap(), Backend::prompt());
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let both = ["--store", &store, "--front", &redis.address()];
    let outbox = [("ONCEGATE__STORE__DURABILITY", "outbox")];
    let start = || Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &both, &outbox);
    let (dying, mut other) = (start(), start());
    let directory = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| text(&run(directory.path(), arguments, &outbox).stdout);
    let url = backend.url();
    let checked = said(&[&["check", "--upstream", &url], &both[..]].concat());
    assert!(checked.contains(", outbox (epoch 1), generation "), "{checked}");

    for key in 0..KEYS {
        assert_eq!(pay(&dying.address, &format!("k{key}")).status(), 201);
    }
    // Dropped, it is killed.
    drop(dying);
    let died = Instant::now();
    let completed = || said(&[&["records", "list", "--state", "completed", "--json"], &both[..]].concat());
    while completed().matches("\"record\"").count() < KEYS {
        assert!(died.elapsed() < PATIENCE, "not every effect has its row in PostgreSQL");
    }
    eprintln!("every effect has its row in PostgreSQL {:.1} s after the death", died.elapsed().as_secs_f64());
    for key in 0..KEYS {
        assert_eq!(pay(&other.address, &format!("k{key}")).field("idempotent-replayed"), Some("true"));
    }
    assert_eq!(backend.executions(), KEYS);

    // One that is stopped in good order waits until PostgreSQL has what it acknowledged.
    server.execute("shop", "ALTER FUNCTION oncegate.apply_batch RENAME TO held").unwrap();
    assert_eq!(pay(&other.address, "last").status(), 201);
    other.signal(Signal::TERM);
    other.wait_for("stopping");
    server.execute("shop", "ALTER FUNCTION oncegate.held RENAME TO apply_batch").unwrap();
    let (status, _directory) = other.wait();
    assert!(status.success(), "{status}");
    let completed = "SELECT count(*) FROM oncegate.records WHERE key = 'last' AND state = 'completed'";
    assert_eq!(server.execute("shop", completed).unwrap().trim(), "1");
}
