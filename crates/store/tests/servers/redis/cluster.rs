//! A Cluster, and what happens to one: failovers, deaths, slots that move.

use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};

use super::{ANOTHER_PORT, START_MAX, Server};

/// The last slot that each node with slots begins with.
const LAST_SLOTS: [usize; 3] = [5460, 10922, 16383];

/// For how many milliseconds a node may be silent that was not killed: on a busy machine that may be long.
const SILENCE_MAX: &str = "5000";

/// The same while one was killed, whose place is to be taken.
const SILENCE_MAX_SHORT: &str = "1000";

/// How long the change of places that was asked of a replica may take, by Redis: then it is given up.
const FAIL_OVER_MAX: Duration = Duration::from_secs(5);

/// Three servers that share the slots, and perhaps a replica of each.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

// === impl Cluster ===

impl Cluster {
    /// Three nodes, each with a third of the slots, that know each other.
    pub(crate) async fn start() -> Self {
        let cluster = Self::start_nodes(LAST_SLOTS.len()).await;
        cluster.until("the nodes find each other", async || cluster.is_whole().await).await;
        cluster
    }

    /// The same, each with a replica that takes its place when it is gone.
    pub(crate) async fn start_with_replicas() -> Self {
        let shards = LAST_SLOTS.len();
        let cluster = Self::start_nodes(2 * shards).await;
        cluster.until("the nodes find each other", async || cluster.is_known().await).await;
        let (masters, replicas) = cluster.nodes.split_at(shards);
        for (master, replica) in masters.iter().zip(replicas) {
            let id: String = ask(master, &["MYID"]).await;
            let _done: Value = ask(replica, &["REPLICATE", &id]).await;
        }
        cluster.until("the replicas follow", async || cluster.is_whole().await).await;
        cluster
    }

    async fn start_nodes(count: usize) -> Self {
        let bus = format!("--cluster-port {ANOTHER_PORT}");
        let silence = format!("--cluster-node-timeout {SILENCE_MAX}");
        let settings = [
            "--cluster-enabled yes",
            &bus,
            &silence,
            // A replica takes no place before it may, and then it does however long it has heard nothing.
            "--cluster-replica-no-failover yes",
            "--cluster-replica-validity-factor 0",
            "--repl-diskless-sync-delay 0",
        ];
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(Server::start(&settings).await);
        }
        let cluster = Self { nodes };
        cluster.form().await;
        cluster
    }

    /// One node that has all slots, and says that it is reached through another port.
    pub(crate) async fn start_alone(through: impl AsyncFnOnce(u16) -> u16) -> Self {
        let bus = format!("--cluster-port {ANOTHER_PORT}");
        let node = Server::start(&["--cluster-enabled yes", &bus]).await;
        let announced = through(node.port()).await;
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("cluster-announce-port").arg(announced).arg("cluster-announce-ip").arg("127.0.0.1");
        config.exec_async(&mut node.connect().await).await.unwrap();
        let last = LAST_SLOTS[LAST_SLOTS.len() - 1].to_string();
        let _done: Value = ask(&node, &["ADDSLOTSRANGE", "0", &last]).await;
        let cluster = Self { nodes: vec![node] };
        cluster.until("it serves all slots", async || cluster.is_known().await).await;
        cluster
    }

    async fn form(&self) {
        let firsts = [0, LAST_SLOTS[0] + 1, LAST_SLOTS[1] + 1];
        for (node, (first, last)) in self.nodes.iter().zip(firsts.into_iter().zip(LAST_SLOTS)) {
            let _done: Value = ask(node, &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            for other in &self.nodes {
                let (port, bus) = (other.port().to_string(), other.another_port().to_string());
                let _done: Value = ask(node, &["MEET", "127.0.0.1", &port, &bus]).await;
            }
        }
    }

    pub(crate) fn address(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// Whether every node knows every other, and finds that all slots are served.
    async fn is_known(&self) -> bool {
        for node in self.running() {
            let info: String = ask(node, &["INFO"]).await;
            let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
            if !info.contains("cluster_state:ok") || !info.contains(&known) {
                return false;
            }
        }
        true
    }

    /// Whether nothing is left to be settled: one master for each third of the slots, and the others follow.
    async fn is_whole(&self) -> bool {
        let masters = self.masters().await;
        for (_, node) in self.nodes.iter().enumerate().filter(|(number, _)| !masters.contains(number)) {
            let mut info = redis::cmd("INFO");
            let info: String = info.arg("replication").query_async(&mut node.connect().await).await.unwrap();
            if !info.contains("role:slave") || !info.contains("master_link_status:up") {
                return false;
            }
        }
        masters.len() == LAST_SLOTS.len() && self.is_known().await
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// The numbers of the running nodes that serve slots.
    async fn masters(&self) -> Vec<usize> {
        let mut masters = Vec::new();
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
            if !slots_of(node).await.is_empty() {
                masters.push(number);
            }
        }
        masters
    }

    /// Polls until it is so.
    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let until = Instant::now() + START_MAX;
        while !is_so().await {
            assert!(Instant::now() < until, "not within {START_MAX:?}: {what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

// === what happens to it ===

impl Cluster {
    /// The number of one of the nodes that serve slots.
    pub(crate) async fn master(&self, number: usize) -> usize {
        let masters = self.masters().await;
        masters[number % masters.len()]
    }

    /// Lets the replica of a master stand still and hear of nothing more, until the master is killed.
    pub(crate) async fn cut_off(&self, master: usize) {
        let master = &self.nodes[master];
        let follows = format!("master_port:{}\r", master.port());
        for node in &self.nodes {
            let mut info = redis::cmd("INFO");
            let info: String = info.arg("replication").query_async(&mut node.connect().await).await.unwrap();
            if info.contains(&follows) {
                node.pause();
            }
        }
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("replica").exec_async(&mut master.connect().await).await.unwrap();
    }

    /// Kills a master, waits until its replica has taken its place, and starts it again: it follows then.
    pub(crate) async fn kill_master(&mut self, master: usize) {
        self.nodes[master].kill();
        self.running().for_each(Server::resume);
        self.let_replicas_take_over(true).await;
        let is_replaced = async || self.masters().await.len() == LAST_SLOTS.len() && self.is_known().await;
        self.until("a replica takes the place of its master", is_replaced).await;
        self.nodes[master].start_again().await;
        self.until("the Cluster is whole again", async || self.is_whole().await).await;
        self.let_replicas_take_over(false).await;
    }

    /// Whether a replica takes the place of a master that is silent. While none is killed it would lose what the master has
    /// not told it yet.
    async fn let_replicas_take_over(&self, is_allowed: bool) {
        let (silence, refuse) = if is_allowed { (SILENCE_MAX_SHORT, "no") } else { (SILENCE_MAX, "yes") };
        for node in self.running() {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("cluster-node-timeout").arg(silence).arg("cluster-replica-no-failover").arg(refuse);
            set.exec_async(&mut node.connect().await).await.unwrap();
        }
    }

    /// Lets a replica and its master change places, as before a node is maintained: nothing is lost.
    pub(crate) async fn fail_over(&self, number: usize) {
        let masters = self.masters().await;
        let replicas: Vec<_> = (0..self.nodes.len()).filter(|node| !masters.contains(node)).collect();
        let chosen = replicas[number % replicas.len()];
        let mut asked: Option<Instant> = None;
        self.until("the replica takes over", async || {
            if asked.is_none_or(|asked| asked.elapsed() > FAIL_OVER_MAX) {
                asked = Some(Instant::now());
                // An error means that its master seems to be gone, or that it has just taken over.
                let fail_over = redis::cmd("CLUSTER").arg("FAILOVER").to_owned();
                let _ = fail_over.exec_async(&mut self.nodes[chosen].connect().await).await;
            }
            self.masters().await.contains(&chosen)
        })
        .await;
        self.until("the Cluster is whole again", async || self.is_whole().await).await;
    }

    /// Moves the slot of a key, with all that is in it, to the next master; `meanwhile` is waited for before it, after
    /// each part of it, and before anybody is told.
    pub(crate) async fn move_slot_of(&self, key: &str, meanwhile: impl AsyncFn()) {
        let slot: usize = ask(&self.nodes[0], &["KEYSLOT", key]).await;
        let masters = self.masters().await;
        let mut owner = None;
        for (place, master) in masters.iter().enumerate() {
            if slots_of(&self.nodes[*master]).await.iter().any(|(first, last)| (first..=last).contains(&&slot)) {
                owner = Some(place);
            }
        }
        let owner = owner.expect("every slot is served");
        let (from, to) = (&self.nodes[masters[owner]], &self.nodes[masters[(owner + 1) % masters.len()]]);
        let slot = slot.to_string();
        let (source, target): (String, String) = (ask(from, &["MYID"]).await, ask(to, &["MYID"]).await);
        let _done: Value = ask(to, &["SETSLOT", &slot, "IMPORTING", &source]).await;
        let _done: Value = ask(from, &["SETSLOT", &slot, "MIGRATING", &target]).await;
        loop {
            meanwhile().await;
            let keys: Vec<String> = ask(from, &["GETKEYSINSLOT", &slot, "100"]).await;
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(to.port()).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
            migrate.exec_async(&mut from.connect().await).await.unwrap();
        }
        let others = masters.iter().map(|master| &self.nodes[*master]);
        for node in [to, from].into_iter().chain(others) {
            let _done: Value = ask(node, &["SETSLOT", &slot, "NODE", &target]).await;
        }
    }
}

async fn ask<T: FromRedisValue>(node: &Server, words: &[&str]) -> T {
    redis::cmd("CLUSTER").arg(words).query_async(&mut node.connect().await).await.unwrap()
}

/// The slots that a node says it serves, each as the first and the last of a range.
async fn slots_of(node: &Server) -> Vec<(usize, usize)> {
    let nodes: String = ask(node, &["NODES"]).await;
    let line = nodes.lines().find(|line| line.contains("myself")).expect("a node knows itself");
    // Behind eight other fields; what is in brackets is on its way.
    let ranges = line.split(' ').skip(8).filter(|range| !range.starts_with('['));
    let number = |text: &str| text.parse().expect("a slot is a number");
    ranges.map(|range| range.split_once('-').unwrap_or((range, range))).map(|(a, b)| (number(a), number(b))).collect()
}
