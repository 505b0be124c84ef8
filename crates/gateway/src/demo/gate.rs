//! The gate, in a process of its own.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStderr},
};

use super::own;

/// How long the gate may take until it listens, and until it has ended.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(10);

/// A gate that can be started, killed and started again on the same store.
#[derive(Debug)]
pub(super) struct Gate {
    service: SocketAddr,
    directory: PathBuf,
    /// Set before anything is awaited, so that also a start that is given up can be stopped.
    child: Option<Child>,
}

/// Where a running gate is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) gate: SocketAddr,
    pub(super) admin: SocketAddr,
}

// === impl Gate ===

impl Gate {
    pub(super) fn new(service: SocketAddr, directory: &Path) -> Self {
        Self { service, directory: directory.to_owned(), child: None }
    }

    /// The address of its store.
    pub(super) fn store(&self) -> String {
        format!("sqlite://{}", self.directory.join("demo.db").display())
    }

    /// Starts it on free ports and waits until it listens.
    pub(super) async fn start(&mut self) -> anyhow::Result<Addresses> {
        let mut serve = own::oncegate(&self.directory)?;
        serve
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store"])
            .arg(self.store())
            .arg("--upstream")
            .arg(format!("http://{}", self.service))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = self.child.insert(serve.spawn().context("the gate does not start")?);
        let log = child.stderr.take().expect("standard error was piped");
        tokio::time::timeout(START_MAX, announced(log))
            .await
            .with_context(|| format!("the gate does not listen after {START_MAX:?}"))?
    }

    /// `kill -9`: it gets no chance to finish anything.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await.context("the gate cannot be killed"),
            None => Ok(()),
        }
    }

    /// Asks it to end and waits for that.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // Fails where it has ended already, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        match tokio::time::timeout(STOP_MAX, child.wait()).await {
            Ok(ended) => drop(ended.context("the gate's end cannot be awaited")?),
            Err(_) => child.kill().await.context("the gate cannot be killed")?,
        }
        Ok(())
    }
}

/// Waits for the line that comes last; the rest of the log is read and dropped, so that the gate never blocks on it.
async fn announced(log: ChildStderr) -> anyhow::Result<Addresses> {
    let (mut lines, mut said, mut admin) = (BufReader::new(log).lines(), Vec::new(), None);
    while let Some(line) = lines.next_line().await.context("the gate's log cannot be read")? {
        if let Some(address) = line.strip_prefix("admin on http://") {
            admin = Some(address.parse().context("the gate names no address")?);
        }
        if let (Some(address), Some(admin)) = (line.strip_prefix("listening on http://"), admin) {
            let gate = address.parse().context("the gate names no address")?;
            let mut rest = lines.into_inner();
            tokio::spawn(async move { tokio::io::copy(&mut rest, &mut tokio::io::sink()).await });
            return Ok(Addresses { gate, admin });
        }
        said.push(line);
    }
    bail!("the gate ended at its start:\n{}", said.join("\n"))
}
