//! Redis servers of the measurement's own: they keep nothing on disk, and nobody else's keys are near.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    time::sleep,
};

use crate::bench::process::Process;

// === types ===

/// One server.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    address: SocketAddr,
}

/// One server alone, or a Cluster of three, and their folder.
#[derive(Debug)]
pub(crate) struct Servers {
    // Before their folder: fields are dropped in this order.
    nodes: Vec<Redis>,
    _directory: TempDir,
}

/// Nodes of a Cluster: fewer are none.
const NODES: usize = 3;

/// Ports of which a Cluster's second one, ten thousand higher, exists.
const CLUSTER_PORTS_MAX: u16 = u16::MAX - 10_000;

/// How long a server may take until it answers, and a Cluster until it has agreed; and how often that is tried.
const START_MAX: Duration = Duration::from_secs(20);
const START_PAUSE: Duration = Duration::from_millis(20);

const INSTALL: &str = "apt-get install redis-server redis-tools";

// === impl Servers ===

impl Servers {
    /// Starts one server.
    ///
    /// # Errors
    /// Redis is not installed (the text says what to install) or does not start.
    pub(crate) async fn single() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("oncegate-redis-").context("no temporary directory can be made")?;
        let nodes = vec![Redis::start(directory.path(), &[]).await?];
        Ok(Self { nodes, _directory: directory })
    }

    /// Starts three servers and makes a Cluster of them.
    ///
    /// # Errors
    /// As [`single`](Self::single).
    pub(crate) async fn cluster() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("oncegate-redis-").context("no temporary directory can be made")?;
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let file = format!("nodes-{number}.conf");
            nodes.push(
                Redis::start(directory.path(), &["--cluster-enabled", "yes", "--cluster-config-file", &file]).await?,
            );
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(nodes.iter().map(|node| node.address.to_string()));
        let output = create.arg("--cluster-yes").stdin(Stdio::null()).output().await.context(INSTALL)?;
        ensure!(output.status.success(), "no Cluster was made:\n{}", String::from_utf8_lossy(&output.stdout));
        for node in &nodes {
            node.says("CLUSTER INFO", "cluster_state:ok").await?;
        }
        Ok(Self { nodes, _directory: directory })
    }

    pub(crate) fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Its address as a store is told it.
    pub(crate) fn url(&self) -> String {
        match &*self.nodes {
            [alone] => alone.url(),
            nodes => {
                let nodes: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
                format!("redis-cluster://{}", nodes.join(","))
            }
        }
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for node in self.nodes {
            node.stop().await?;
        }
        Ok(())
    }
}

// === impl Redis ===

impl Redis {
    /// Starts a server with these settings beside Redis's own.
    pub(crate) async fn start(directory: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        Self::start_at(free_address()?, directory, settings).await
    }

    /// The same at an address that was free.
    pub(crate) async fn start_at(address: SocketAddr, directory: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        let port = address.port().to_string();
        let mut command = Command::new("redis-server");
        command.current_dir(directory).args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]).args(settings);
        let process =
            Process::start("redis-server", &mut command).with_context(|| format!("is it there? {INSTALL}"))?;
        let redis = Self { process, address };
        redis.says("INFO server", &format!("process_id:{}\r\n", redis.pid())).await?;
        Ok(redis)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many keys it has.
    pub(crate) async fn keys(&self) -> anyhow::Result<u64> {
        let answer = self.ask("DBSIZE").await?;
        let number = answer.strip_prefix(':').and_then(|answer| answer.lines().next()?.parse().ok());
        number.with_context(|| format!("redis-server answers DBSIZE with {answer:?}"))
    }

    /// Its address as a store is told it.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.process.stop().await
    }

    /// Ends it at once.
    pub(crate) async fn kill(self) -> anyhow::Result<()> {
        self.process.stop_by(Signal::KILL).await
    }

    /// Waits until what it answers contains this; another server on its port never says it.
    async fn says(&self, command: &str, words: &str) -> anyhow::Result<()> {
        let tries = START_MAX.as_millis() / START_PAUSE.as_millis();
        for _ in 0..tries {
            match self.ask(command).await {
                Ok(answer) if answer.contains(words) => return Ok(()),
                Ok(_) | Err(_) => sleep(START_PAUSE).await,
            }
        }
        bail!("redis-server on {} does not say {words:?} after {START_MAX:?}:\n{}", self.address, self.process.said())
    }

    async fn ask(&self, command: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    loop {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        if address.port() <= CLUSTER_PORTS_MAX {
            return Ok(address);
        }
    }
}
