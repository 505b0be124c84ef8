//! What a test does to a gateway besides sending requests, and learns besides its answers.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Stdio},
};

use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use oncegate_core::{Filter, Record, Store};
use oncegate_store::sqlite::{Options, SqliteStore};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::{Answer, Gate, Sent, Server};

/// Another program that holds the store's write lock.
pub(crate) struct StoreLock(Child);

impl Drop for StoreLock {
    /// The end of its input ends the program, and with it the lock.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Gate {
    /// The gateway's store, opened by the test as well.
    pub(crate) fn store(&self) -> SqliteStore {
        SqliteStore::open(self.directory().join("gate.db"), Options::default()).unwrap()
    }

    /// Lets nobody write to the store until this is dropped; reading goes on. Another program holds
    /// the lock, as an operator's shell might.
    pub(crate) fn lock_store(&self) -> StoreLock {
        let script = "import sqlite3, sys; lock = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None); \
                      lock.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]).arg(self.directory().join("gate.db"));
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "locked\n");
        StoreLock(holder)
    }

    /// Ends all leases, as their time would.
    pub(crate) fn end_leases(&self) {
        let script = "import sqlite3, sys; store = sqlite3.connect(sys.argv[1], timeout=60); \
                      store.execute('UPDATE records SET lease_until = created_at'); store.commit()";
        let mut command = std::process::Command::new("python3");
        let status = command.args(["-c", script]).arg(self.directory().join("gate.db")).status().unwrap();
        assert!(status.success());
    }

    /// All living records.
    pub(crate) async fn records(&self) -> Vec<Record> {
        self.store().list(&Filter::default()).await.unwrap()
    }

    /// Sends a request by HTTP/2 in clear.
    pub(crate) async fn send_by_http2(&self, request: &Sent) -> Answer {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<_>>();
        Answer::of(client.request(request.to(&self.server.address)).await.unwrap()).await
    }
}

impl Server {
    /// Ends it as by `kill -9`, unless it has ended.
    pub(crate) async fn kill(&mut self) {
        if self.child.id().is_some() {
            self.child.kill().await.unwrap();
        }
    }

    /// Waits until it has ended well.
    pub(crate) async fn ended(&mut self) {
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "it ended by {status}");
    }

    /// Waits until it has died by its own hand, at a crash point.
    #[cfg(feature = "crash-points")]
    pub(crate) async fn died(&mut self) {
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it ended by {status} instead of kill -9");
    }

    /// Stops the process where it stands, lets it go on, or asks it to end.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What a path of its admin listener answers.
    pub(crate) async fn admin(&self, path: &str) -> String {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<bytes::Bytes>>();
        let response = client.get(format!("http://{}{path}", self.admin).parse().unwrap()).await.unwrap();
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
    }

    /// The value of one series of its metrics, such as `oncegate_executions_total`; 0 if there is none.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let metrics = self.admin("/metrics").await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }
}

/// Starts a gateway whose configuration must be refused, and returns what it says.
pub(crate) async fn refusal(config: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("oncegate.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["serve", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--config").arg(&file).arg("--store").arg(store_url(directory.path()));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(output.status.signal().is_none(), "{said}");
    said
}

fn store_url(directory: &Path) -> String {
    format!("sqlite://{}", directory.join("gate.db").display())
}
