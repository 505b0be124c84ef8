//! `oncegate serve` on Redis.

use crate::{
    backend::Backend,
    http::pay,
    process::{Gate, run, text},
    servers::redis::RedisServer,
};

const MAY_FORGET: (&str, &str) = ("ONCEGATE__STORE__BEST_EFFORT", "true");
const NEVER_COLD: (&str, &str) = ("ONCEGATE__STORE__COLD", "0s");

#[test]
fn two_gates_share_one_redis() {
    let server = RedisServer::start(&["--appendonly", "yes"]).unwrap();
    let (store, backend) = (server.address(), Backend::prompt());
    let variables = [MAY_FORGET, NEVER_COLD];
    let start = || Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &["--store", &store], &variables);
    let (one, other) = (start(), start());
    let (first, repeat) = (pay(&one.address, "k1"), pay(&other.address, "k1"));
    assert_eq!((first.status(), first.field("idempotent-replayed")), (201, None));
    assert_eq!((repeat.status(), repeat.field("idempotent-replayed"), &*repeat.body), (201, Some("true"), "paid"));
    assert_eq!(backend.executions(), 1, "one for both");

    let arguments = ["check", "--upstream", &backend.url(), "--store", &store];
    let output = run(one.directory.path(), &arguments, &variables);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("1 completed, 0 in flight, 0 abandoned, 0 unknown; version "), "{printed}");
    assert!(printed.contains("append-only file synced everysec"), "{printed}");
    assert!(printed.contains("warning: the store is a Redis alone"), "{printed}");
    let listed = run(one.directory.path(), &["records", "list", "--store", &store], &variables);
    assert!(text(&listed.stdout).contains("k1"), "{}", text(&listed.stderr));
}

#[test]
fn an_empty_redis_takes_no_new_keys_at_first() {
    let server = RedisServer::start(&[]).unwrap();
    let (store, backend) = (server.address(), Backend::prompt());
    let gate = Gate::start_in(tempfile::tempdir().unwrap(), &backend.url(), &["--store", &store], &[MAY_FORGET]);
    let refused = pay(&gate.address, "k1");
    assert_eq!((refused.status(), backend.executions()), (503, 0), "nothing is sent");
}

#[test]
fn a_redis_that_may_evict_or_that_nobody_said_may_forget_is_refused() {
    let server = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]).unwrap();
    let (store, backend, directory) = (server.address(), Backend::prompt(), tempfile::tempdir().unwrap());
    let url = backend.url();
    let serve = ["serve", "--upstream", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", &store];
    let refused = run(directory.path(), &serve, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("best_effort = true"), "{}", text(&refused.stderr));
    let refused = run(directory.path(), &serve, &[MAY_FORGET]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("set noeviction"), "{}", text(&refused.stderr));
    let checked = run(directory.path(), &["check", "--upstream", &url, "--store", &store], &[MAY_FORGET]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("set noeviction"), "{}", text(&checked.stdout));
}
