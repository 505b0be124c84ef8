//! What a server must be set to, who may do what, and replicas that are waited for.

use std::time::Duration;

use oncegate_core::{Claim, ErrorKind, Store, Written};

use crate::{
    fixture::{acquire, open, repeat, request, response, until_followed},
    server::{Cluster, Server, connect_to},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_evict_is_refused_at_start_and_later_unless_it_is_allowed() {
    let server = Server::start(&["--maxmemory-policy allkeys-lru"]).await;
    let store = open(&server.address(), |_| {});
    let error = store.check().await.unwrap_err().to_string();
    assert!(error.contains("allkeys-lru") && error.contains("set noeviction"), "{error}");
    let error = store.claim(&request("k")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("allkeys-lru"), "{error}");
    let allowing = open(&server.address(), |options| options.allow_eviction = true);
    assert!(allowing.check().await.unwrap()[0].can_evict());
    acquire(&allowing, &request("k")).await;

    let mut connection = server.connect().await;
    let set = |policy: &str| redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg(policy).to_owned();
    set("noeviction").exec_async(&mut connection).await.unwrap();
    store.census().await.unwrap();
    acquire(&store, &request("l")).await;
    set("volatile-ttl").exec_async(&mut connection).await.unwrap();
    store.census().await.unwrap_err();
    let error = store.claim(&request("m")).await.unwrap_err().to_string();
    assert!(error.contains("volatile-ttl"), "somebody changed it while we were running: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_claims_and_applies_nothing() {
    let server = Server::start(&["--maxmemory 1"]).await;
    let store = open(&server.address(), |_| {});
    let first = request("k");
    let error = store.claim(&first).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").to_owned();
    set.exec_async(&mut server.connect().await).await.unwrap();
    assert_eq!(store.get(first.id.digest()).await.unwrap(), None);
    acquire(&store, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_what_an_operator_should_know() {
    let server = Server::start(&["--appendonly yes", "--maxmemory 64mb"]).await;
    let said = open(&server.address(), |_| {}).check().await.unwrap();
    let said = said[0].to_string();
    assert!(said.contains("version ") && said.contains("noeviction") && said.contains(" of 64"), "{said}");
    assert!(said.contains("synced everysec") && said.contains("0 replicas"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_a_cluster_are_all_asked_and_waited_for() {
    let cluster = Cluster::start().await;
    let store = open(&cluster.address(), |_| {});
    let servers = store.check().await.unwrap();
    assert_eq!(servers.len(), 3);
    assert!(servers.iter().all(|server| server.to_string().contains("a restart loses records")), "{servers:?}");
    let waiting = open(&cluster.address(), |options| (options.wait_replicas, options.wait_timeout) = (1, WAIT));
    let first = request("k");
    let error = waiting.claim(&first).await.unwrap_err().to_string();
    assert!(error.contains("0 of 1 replicas"), "a Cluster waits as well: {error}");
    acquire(&store, &first).await;
}

const WAIT: Duration = Duration::from_millis(100);

/// Below the time that the store allows a call.
const PATIENCE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_may_do_what_the_documentation_names_and_no_more() {
    let server = Server::start(&[]).await;
    let mut connection = server.connect().await;
    let page = include_str!("../../../../docs/redis.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER oncegate")).unwrap();
    let words: Vec<_> = line.split(' ').map(|word| word.replace("PASSWORD", "p@ss:word/")).collect();
    redis::cmd(&words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("other").exec_async(&mut connection).await.unwrap();
    let address = |who: &str| format!("redis://{who}127.0.0.1:{}", server.port());
    let store = open(&address("oncegate:p%40ss%3Aword%2F@"), |options| options.cold = Duration::from_micros(1));
    store.check().await.unwrap();
    store.claim(&request("k")).await.unwrap_err();
    let lease = acquire(&store, &request("k")).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    store.list(&oncegate_core::Filter::default()).await.unwrap();
    store.reap(10).await.unwrap();
    for who in ["", "oncegate:hunter2@", ":hunter2@"] {
        let error = open(&address(who), |_| {}).claim(&request("k")).await.unwrap_err();
        let said = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(said.contains("refuses this user or password") && !said.contains("hunter2"), "{who}: {said}");
    }
    let narrow = redis::cmd("ACL").arg("SETUSER").arg("oncegate").arg("-zadd").to_owned();
    narrow.exec_async(&mut connect_to(&address(":other@")).await).await.unwrap();
    let error = store.claim(&request("l")).await.unwrap_err().to_string();
    assert!(error.contains("does not allow this user"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c76_a_write_that_too_few_replicas_have_is_an_error_and_is_recognised_later() {
    let primary = Server::start(&[]).await;
    let follow = format!("--replicaof 127.0.0.1 {}", primary.port());
    let mut replica = Server::start(&[&follow, "--repl-diskless-sync-delay 0"]).await;
    until_followed(&primary).await;
    let waiting = |timeout: Duration| {
        open(&primary.address(), |options| (options.wait_replicas, options.wait_timeout) = (1, timeout))
    };
    // Where the replica is there it is given all the time that a busy machine may need; where it is not, nobody waits.
    let (store, hasty) = (waiting(PATIENCE), waiting(Duration::from_millis(300)));
    let first = request("k");
    let lease = acquire(&store, &first).await;
    replica.kill();
    let second = request("l");
    let error = hasty.claim(&second).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("0 of 1 replicas"), "{error}");
    let error = hasty.complete(&lease, &response(201)).await.unwrap_err().to_string();
    assert!(error.contains("0 of 1 replicas"), "{error}");
    let Claim::Completed(_) = hasty.claim(&repeat(&first)).await.unwrap() else { panic!("it stands all the same") };

    replica.start_again().await;
    until_followed(&primary).await;
    assert_eq!(store.complete(&lease, &response(201)).await.unwrap(), Written::Done);
    assert_eq!(acquire(&store, &second).await.attempt, 1, "its own claim is recognised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_only_recognised_waits_for_replicas_too() {
    let primary = Server::start(&[]).await;
    let replica = Server::start(&[&format!("--replicaof 127.0.0.1 {}", primary.port())]).await;
    until_followed(&primary).await;
    let waiting = |timeout: Duration| {
        open(&primary.address(), |options| (options.wait_replicas, options.wait_timeout) = (1, timeout))
    };
    let (first, second) = (request("k"), request("l"));
    // A busy machine's replica may take its time.
    let lease = acquire(&waiting(PATIENCE), &second).await;
    // Connected, and with all that there was until now.
    replica.pause();
    for _ in 0..2 {
        let error = waiting(WAIT).claim(&first).await.unwrap_err().to_string();
        assert!(error.contains("0 of 1 replicas"), "{error}");
        let error = waiting(WAIT).complete(&lease, &response(201)).await.unwrap_err().to_string();
        assert!(error.contains("0 of 1 replicas"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused() {
    let primary = Server::start(&[]).await;
    let replica = Server::start(&[&format!("--replicaof 127.0.0.1 {}", primary.port())]).await;
    let error = open(&replica.address(), |_| {}).claim(&request("k")).await.unwrap_err().to_string();
    assert!(error.contains("name the primary"), "{error}");
}
