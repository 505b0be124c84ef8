//! The real binary.

use std::{net::SocketAddr, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A running gate. Dropping it kills it.
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Gate {
    /// Starts a gate and waits until it listens.
    pub(crate) async fn start(upstream: SocketAddr) -> Self {
        let directory = TempDir::new().expect("there is room for temporary files");
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command
            .args(["serve", "--upstream", &format!("http://{upstream}"), "--listen", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--store", "sqlite://gate.db"])
            // A busy machine is no store that is down.
            .env("ONCEGATE__STORE__TIMEOUT", "20s")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the gate starts");
        let mut lines = BufReader::new(child.stderr.take().expect("standard error was piped")).lines();
        let address = loop {
            let line = lines.next_line().await.expect("its words are UTF-8").expect("it listens before it ends");
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.parse().expect("an address");
            }
        };
        // What it says further on is read away, so that it can go on talking.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { address, child, _directory: directory }
    }

    /// Stops it and sees that it ended well.
    pub(crate) async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it can be told to stop");
        assert!(self.child.wait().await.expect("it was started here").success());
    }
}
