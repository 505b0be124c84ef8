//! Redis servers of the test's own, in temporary directories.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use tempfile::TempDir;

#[path = "redis/cluster.rs"]
mod cluster;

pub(crate) use self::cluster::Cluster;

/// Ports tried: somebody else may take a free one between our look and the server's start.
const PORTS_MAX: usize = 5;

/// How long a server may take to start or to answer, or a Cluster to form: longer than any does that does not hang.
const START_MAX: Duration = Duration::from_secs(60);

/// Stands in settings for a port of the server's besides that for commands.
pub(crate) const ANOTHER_PORT: &str = "another-port";

/// A running server. Dropping it, also while a test panics, ends it.
pub(crate) struct Server {
    directory: TempDir,
    settings: Vec<String>,
    port: u16,
    another_port: u16,
    child: Option<Child>,
}

// === impl Server ===

impl Server {
    /// A server that keeps nothing on disk, with these settings besides.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("oncegate-redis-").tempdir().unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { directory, settings, port: 0, another_port: 0, child: None };
        for _ in 0..PORTS_MAX {
            (server.port, server.another_port) = (free_port(), free_port());
            if server.try_start().await {
                return server;
            }
        }
        panic!("no server could be started: {}", server.log());
    }

    /// Starts it again, with what it has on disk, on the same ports; somebody else may have one of them for a moment.
    pub(crate) async fn start_again(&mut self) {
        self.kill();
        let until = Instant::now() + START_MAX;
        while !self.try_start().await {
            assert!(Instant::now() < until, "the server does not start again: {}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it in the middle of whatever it does, with its connections open; it ends when it is dropped.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    async fn try_start(&mut self) -> bool {
        let log = fs::File::create(self.directory.path().join("log")).unwrap();
        let mut command = Command::new(program());
        let (port, another) = (self.port.to_string(), self.another_port.to_string());
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--databases", "64"]);
        let words = self.settings.iter().flat_map(|setting| setting.split(' '));
        command.args(words.map(|word| if word == ANOTHER_PORT { &another } else { word }));
        command.current_dir(self.directory.path()).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("redis-server is installed: apt-get install redis-server"));
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                return false;
            }
            if self.log().contains("Ready to accept connections") {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server does not start within {START_MAX:?}: {}", self.log());
    }

    /// Where a store finds it.
    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn another_port(&self) -> u16 {
        self.another_port
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A connection to this very server, which has the process that we started.
    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        let mut connection = connect_to(&self.address()).await;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await.unwrap();
        let pid = format!("process_id:{}\r\n", self.child.as_ref().expect("it runs").id());
        assert!(info.contains(&pid), "another server answers on port {}", self.port);
        connection
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// A connection that waits for a server on a busy machine.
pub(crate) async fn connect_to(address: &str) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new();
    let config = config.set_connection_timeout(Some(START_MAX)).set_response_timeout(Some(START_MAX));
    Client::open(address).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn program() -> PathBuf {
    env::var_os("REDIS_SERVER").map_or_else(|| PathBuf::from("redis-server"), PathBuf::from)
}
