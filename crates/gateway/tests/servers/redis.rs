//! A Redis server of the test's own, in a temporary directory.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest wait until it accepts connections; a loaded machine starts slowly.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it, also while a test panics, ends it.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    // Dropped last: the server must not lose its files while it runs.
    _directory: TempDir,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk, with these settings besides.
    ///
    /// # Errors
    ///
    /// Redis is not installed, does not start, or another server answers.
    pub(crate) fn start(settings: &[&str]) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("oncegate-redis-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]).args(settings);
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("apt-get install redis-server")?;
        let server = Self { child, port, _directory: directory };
        let until = Instant::now() + START_LIMIT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(Instant::now() < until, "Redis is not ready after {START_LIMIT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        server.ensure_ours()?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends its process a signal: it can be stopped for a while.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.child);
        kill_process(process, signal).expect("it runs until it is dropped");
    }

    /// The server tells its process, and that is ours.
    fn ensure_ours(&self) -> anyhow::Result<()> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        connection.write_all(b"INFO server\r\n")?;
        let process = format!("process_id:{}", self.child.id());
        for line in BufReader::new(connection).lines() {
            let line = line?;
            if line.trim() == process {
                return Ok(());
            }
            if line.starts_with("uptime_in_days:") || line.starts_with('-') {
                break;
            }
        }
        bail!("another server answers on port {}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
