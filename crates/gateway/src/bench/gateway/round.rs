//! The components, and one round of measuring them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use oncegate_store::postgres::yardstick::Server;
use tokio::process::Command;

use super::{
    commits,
    nginx::Nginx,
    paced::{self, Paced},
    programs::Programs,
    wrk::{Keys, Seen, Wrk},
};
use crate::bench::{cluster::Cluster, cpu, process::Process, redis::Redis};

mod watching;

pub(super) use self::watching::{Watching, WatchingRound};

/// The keys of the row `memory`; `load.lua` says why they begin with this.
const FIRST_KEY: u64 = 2;
const KNOWN_KEYS: u64 = 64;

/// How long a process is loaded before it is measured for the first time.
const WARM_UP_SECONDS: u32 = 1;

/// How long the upstream must be left alone before a row is measured.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// The last requests of a run may never have been sent whole; their keys are not replayed.
const UNCERTAIN_KEYS: u64 = 256;

/// What a component says when it is ready.
const ANNOUNCEMENT: &str = "listening on http://";

/// What stays the same from round to round.
#[derive(Debug)]
pub(super) struct Bench {
    oncegate: PathBuf,
    directory: PathBuf,
    seconds: u32,
    wrk: Wrk,
    upstream: Nginx,
    nginx: Nginx,
    bare: Proxy,
    cluster: Cluster,
    redis: Redis,
}

/// One of our own proxies.
#[derive(Debug)]
struct Proxy {
    process: Process,
    address: SocketAddr,
}

/// What stands between the load and the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Between {
    Nginx,
    Bare,
    Passing,
    Unique,
    Memory,
    Fresh,
    Postgres,
    PostgresFresh,
    Tiered,
    Outbox,
}

/// One row of one round.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) seen: Seen,
    pub(super) proxy_cpu: Duration,
    pub(super) upstream_cpu: Duration,
    pub(super) wrk_cpu: Duration,
    /// Of PostgreSQL's processes.
    pub(super) postgres_cpu: Duration,
    pub(super) redis_cpu: Duration,
    /// How many requests the upstream got.
    pub(super) forwarded: u64,
}

/// Medians at a hundred requests a second, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unhurried {
    pub(super) direct: u64,
    pub(super) passing: u64,
    pub(super) unique: u64,
}

/// Medians at five hundred requests a second, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    pub(super) direct: u64,
    pub(super) authoritative: u64,
    pub(super) outbox: u64,
}

/// The pause from one request to the next at five hundred a second.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// CPU time per request in microseconds, both loaded at the same time: whatever slows the machine down meanwhile slows
/// both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) bare: f64,
    pub(super) passing: f64,
}

/// One round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) rows: Vec<(Between, Measured)>,
    pub(super) beside: Beside,
    pub(super) unhurried: Unhurried,
    pub(super) busy: Busy,
}

// === impl Bench ===

impl Bench {
    /// Starts what runs through all rounds.
    pub(super) async fn start(programs: &Programs, directory: &Path, seconds: u32) -> anyhow::Result<Self> {
        let upstream = Nginx::upstream(&programs.nginx, directory).await?;
        let nginx = Nginx::proxy(&programs.nginx, directory, upstream.address).await?;
        let mut command = Command::new(&programs.oncegate);
        command.args(["bench", "bare-proxy", "--upstream", &upstream.address.to_string()]);
        let bare = Proxy::start("the bare proxy", &mut command).await?;
        let bench = Self {
            oncegate: programs.oncegate.clone(),
            directory: directory.to_owned(),
            seconds,
            wrk: Wrk::new(&programs.wrk, directory)?,
            upstream,
            nginx,
            bare,
            cluster: Cluster::start(&[]).await?,
            redis: Redis::start(directory, &[]).await?,
        };
        for address in [bench.nginx.address, bench.bare.address] {
            bench.warm_up(address).await?;
        }
        Ok(bench)
    }

    /// What a claim and a completion take on this disk.
    pub(super) async fn commits(&self) -> anyhow::Result<Duration> {
        commits::of_sqlite(&self.directory).await
    }

    /// Measures every row once.
    pub(super) async fn round(&self, number: u32) -> anyhow::Result<Round> {
        let mut rows = Vec::new();
        let (nginx, bare) = (&self.nginx, &self.bare);
        rows.push(self.row(Between::Nginx, nginx.address, &nginx.process, Keys::None).await?);
        rows.push(self.row(Between::Bare, bare.address, &bare.process, Keys::None).await?);

        let database = format!("sqlite://{}", self.directory.join(format!("round-{number}.db")).display());
        let gate = self.gate(&database).await?;
        self.warm_up(gate.address).await?;
        let unique = format!("unique-{number}-");
        let known = format!("known-{number}-");
        let mut client = Paced::connect(gate.address).await?;
        for key in FIRST_KEY..=KNOWN_KEYS {
            client.post(Some(&known), key).await?;
        }
        rows.push(self.row(Between::Passing, gate.address, &gate.process, Keys::None).await?);
        rows.push(self.row(Between::Unique, gate.address, &gate.process, Keys::Unique(unique.clone())).await?);
        let executed = executed(&rows);
        rows.push(self.row(Between::Memory, gate.address, &gate.process, Keys::Known(known, KNOWN_KEYS)).await?);
        let beside = self.beside(&gate).await?;
        let unhurried = self.unhurried(&gate, &mut client, number).await?;
        gate.process.stop().await?;

        let gate = self.gate(&database).await?;
        rows.push(self.row(Between::Fresh, gate.address, &gate.process, Keys::Known(unique, executed)).await?);
        gate.process.stop().await?;
        let busy = self.on_postgres(number, &mut rows).await?;
        Ok(Round { rows, beside, unhurried, busy })
    }

    /// The rows on PostgreSQL, in a database of the round's own.
    async fn on_postgres(&self, number: u32, rows: &mut Vec<(Between, Measured)>) -> anyhow::Result<Busy> {
        let name = format!("round_{number}");
        let server = Server::connect(self.cluster.address()).await?;
        server.make_database(&name).await?;
        let (database, unique) = (self.cluster.url(&name), format!("postgres-{number}-"));
        let gate = self.gate(&database).await?;
        self.warm_up(gate.address).await?;
        rows.push(self.row(Between::Postgres, gate.address, &gate.process, Keys::Unique(unique.clone())).await?);
        let known = Keys::Known(unique, executed(rows));
        gate.process.stop().await?;

        let gate = self.gate(&database).await?;
        rows.push(self.row(Between::PostgresFresh, gate.address, &gate.process, known).await?);
        gate.process.stop().await?;

        let authoritative = self.behind_redis(Between::Tiered, (&database, number), rows).await?;
        let outbox = self.behind_redis(Between::Outbox, (&database, number), rows).await?;
        server.drop_database(&name).await?;
        let direct = Paced::connect(self.upstream.address).await?.p50_micros(None, BUSY_PAUSE, self.seconds).await?;
        let busy = Busy { direct, authoritative, outbox };
        eprintln!("  500/s          {busy:?} µs");
        Ok(busy)
    }

    /// A row behind Redis, and the median at 500 requests a second.
    async fn behind_redis(
        &self,
        between: Between,
        (database, number): (&str, u32),
        rows: &mut Vec<(Between, Measured)>,
    ) -> anyhow::Result<u64> {
        let mut command = self.gate_command(database);
        command.env("ONCEGATE__STORE__FRONT", self.redis.url());
        if between == Between::Outbox {
            // With a longer lag it is closed, and answers of 503 are a fault of the row.
            command.env("ONCEGATE__STORE__DURABILITY", "outbox").env("ONCEGATE__STORE__OUTBOX_LIMIT", "1s");
        }
        let gate = Proxy::start("the gate", &mut command).await?;
        self.warm_up(gate.address).await?;
        let unique = Keys::Unique(format!("{}-{number}-", between.name()));
        rows.push(self.row(between, gate.address, &gate.process, unique).await?);
        self.settled().await?;
        let (mut client, prefix) = (Paced::connect(gate.address).await?, format!("busy-{}-{number}-", between.name()));
        let p50 = client.p50_micros(Some(&prefix), BUSY_PAUSE, self.seconds).await?;
        gate.process.stop().await?;
        Ok(p50)
    }

    pub(super) async fn stop(self) {
        for ended in [self.cluster.stop().await, self.redis.stop().await] {
            if let Err(error) = ended {
                eprintln!("warning: {error:#}");
            }
        }
        for process in [self.bare.process, self.nginx.process, self.upstream.process] {
            if let Err(error) = process.stop().await {
                eprintln!("warning: {error:#}");
            }
        }
    }

    async fn gate(&self, store: &str) -> anyhow::Result<Proxy> {
        Proxy::start("the gate", &mut self.gate_command(store)).await
    }

    fn gate_command(&self, store: &str) -> Command {
        let mut command = Command::new(&self.oncegate);
        command.current_dir(&self.directory).arg("serve");
        command.args(["--upstream", &format!("http://{}", self.upstream.address), "--listen", "127.0.0.1:0"]);
        // By the environment: an address has a password, and arguments can be read by everybody.
        command.args(["--admin", "127.0.0.1:0"]).env("ONCEGATE__STORE__URL", store);
        command
    }

    async fn warm_up(&self, address: SocketAddr) -> anyhow::Result<()> {
        self.wrk.load(address, &Keys::None, WARM_UP_SECONDS).await.map(drop)
    }

    async fn row(
        &self,
        between: Between,
        address: SocketAddr,
        proxy: &Process,
        keys: Keys,
    ) -> anyhow::Result<(Between, Measured)> {
        self.settled().await?;
        let before = (self.cpu(proxy)?, self.upstream.count().await?);
        let seen = self.wrk.load(address, &keys, self.seconds).await?;
        let (after, forwarded) = (self.cpu(proxy)?, self.upstream.count().await?);
        let used = |index: usize| after[index].saturating_sub(before.0[index]);
        let measured = Measured {
            seen,
            proxy_cpu: used(0),
            upstream_cpu: used(1),
            wrk_cpu: used(2),
            postgres_cpu: used(3),
            redis_cpu: used(4),
            // The count itself is a request.
            forwarded: forwarded.saturating_sub(before.1).saturating_sub(1),
        };
        eprintln!("  {:<14} {:>8.0} requests/s", between.name(), measured.seen.per_second());
        Ok((between, measured))
    }

    /// wrk leaves with requests under way, and the gate executes them all the same: waits until they are through.
    async fn settled(&self) -> anyhow::Result<()> {
        let mut count = self.upstream.count().await?;
        loop {
            tokio::time::sleep(SETTLE_PAUSE).await;
            let later = self.upstream.count().await?;
            // The count itself is a request.
            if later == count + 1 {
                return Ok(());
            }
            count = later;
        }
    }

    /// Of the proxy, the upstream, wrk, PostgreSQL and Redis.
    fn cpu(&self, proxy: &Process) -> anyhow::Result<[Duration; 5]> {
        let (proxy, upstream) = (cpu::of_process(proxy.pid())?, cpu::of_process(self.upstream.process.pid())?);
        let (postgres, redis) = (cpu::of_family(self.cluster.pid())?, cpu::of_process(self.redis.pid())?);
        Ok([proxy, upstream, cpu::of_ended_children()?, postgres, redis])
    }

    async fn beside(&self, gate: &Proxy) -> anyhow::Result<Beside> {
        self.settled().await?;
        let cpu = || anyhow::Ok([cpu::of_process(self.bare.process.pid())?, cpu::of_process(gate.process.pid())?]);
        let before = cpu()?;
        let load = |address| self.wrk.load(address, &Keys::None, self.seconds);
        let (bare, passing) = tokio::try_join!(load(self.bare.address), load(gate.address))?;
        let after = cpu()?;
        let beside = Beside {
            bare: bare.share_of(after[0].saturating_sub(before[0])),
            passing: passing.share_of(after[1].saturating_sub(before[1])),
        };
        eprintln!("  beside         {:.1} µs bare, {:.1} µs passing", beside.bare, beside.passing);
        Ok(beside)
    }

    async fn unhurried(&self, gate: &Proxy, client: &mut Paced, number: u32) -> anyhow::Result<Unhurried> {
        let mut direct = Paced::connect(self.upstream.address).await?;
        let prefix = format!("paced-{number}-");
        let unhurried = Unhurried {
            direct: direct.p50_micros(None, paced::PAUSE, self.seconds).await?,
            passing: client.p50_micros(None, paced::PAUSE, self.seconds).await?,
            unique: client.p50_micros(Some(&prefix), paced::PAUSE, self.seconds).await?,
        };
        eprintln!("  100/s          {unhurried:?} µs at {}", gate.address);
        Ok(unhurried)
    }
}

/// How many of the keys of the last row were certainly executed.
fn executed(rows: &[(Between, Measured)]) -> u64 {
    let requests = rows.last().map_or(0, |(_, measured)| measured.seen.requests);
    requests.saturating_sub(UNCERTAIN_KEYS).max(FIRST_KEY)
}

// === impl Proxy ===

impl Proxy {
    async fn start(name: &'static str, command: &mut Command) -> anyhow::Result<Self> {
        let (process, address) = Process::announced(name, command, ANNOUNCEMENT).await?;
        let address = address.parse().with_context(|| format!("{name} listens on {address:?}"))?;
        Ok(Self { process, address })
    }
}

// === impl Between ===

impl Between {
    pub(super) const ALL: [Self; 10] = [
        Self::Nginx,
        Self::Bare,
        Self::Passing,
        Self::Unique,
        Self::Memory,
        Self::Fresh,
        Self::Postgres,
        Self::PostgresFresh,
        Self::Tiered,
        Self::Outbox,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Bare => "bare",
            Self::Passing => "passing",
            Self::Unique => "unique",
            Self::Memory => "memory",
            Self::Fresh => "fresh",
            Self::Postgres => "postgres",
            Self::PostgresFresh => "postgres-fresh",
            Self::Tiered => "tiered",
            Self::Outbox => "outbox",
        }
    }

    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Nginx => "nginx proxy_pass, one worker",
            Self::Bare => "bare hyper-util proxy",
            Self::Passing => "gate, no key",
            Self::Unique => "gate, unique keys, SQLite",
            Self::Memory => "gate, replays from memory",
            Self::Fresh => "gate, replays from SQLite after a start",
            Self::Postgres => "gate, unique keys, PostgreSQL",
            Self::PostgresFresh => "gate, replays from PostgreSQL after a start",
            Self::Tiered => "gate, unique keys, Redis before PostgreSQL",
            Self::Outbox => "gate, unique keys, the same with an outbox",
        }
    }

    /// Whether the requests have to reach the upstream.
    pub(super) fn forwards(self) -> bool {
        match self {
            Self::Nginx | Self::Bare | Self::Passing | Self::Unique => true,
            Self::Postgres | Self::Tiered | Self::Outbox => true,
            Self::Memory | Self::Fresh | Self::PostgresFresh => false,
        }
    }
}
