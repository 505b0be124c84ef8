//! A component that runs in a process of its own.

use std::{
    collections::VecDeque,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::oneshot,
};

/// How long a component may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last lines that are kept of what a component says, for the text of an error.
const LINES_MAX: usize = 20;

/// A running component. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Child,
    pid: u32,
    said: Arc<Mutex<VecDeque<String>>>,
}

// === impl Process ===

impl Process {
    /// Starts `command`.
    pub(super) fn start(name: &'static str, command: &mut Command) -> anyhow::Result<Self> {
        Ok(Self::start_and_hear(name, command, "")?.0)
    }

    /// Starts `command` and waits for a line that begins with `announcement`; returns the rest of that line.
    pub(super) async fn announced(
        name: &'static str,
        command: &mut Command,
        announcement: &'static str,
    ) -> anyhow::Result<(Self, String)> {
        let (process, heard) = Self::start_and_hear(name, command, announcement)?;
        match tokio::time::timeout(PATIENCE, heard).await {
            Ok(Ok(rest)) => Ok((process, rest)),
            Ok(Err(_)) => bail!("{name} ended at its start:\n{}", process.said()),
            Err(_) => bail!("{name} is not ready after {PATIENCE:?}:\n{}", process.said()),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// What it said last.
    pub(super) fn said(&self) -> String {
        let lines = self.said.lock().expect("nothing panics while it holds this lock");
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Asks it to end and waits for that.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stop_by(Signal::TERM).await
    }

    /// The same, by another signal.
    pub(super) async fn stop_by(mut self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow!("{} has no process id", self.name))?;
        // Fails where it has ended already, which is what is wanted.
        let _ = kill_process(pid, signal);
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.with_context(|| format!("{} did not end within {PATIENCE:?}", self.name))??;
        Ok(())
    }

    fn start_and_hear(
        name: &'static str,
        command: &mut Command,
        announcement: &'static str,
    ) -> anyhow::Result<(Self, oneshot::Receiver<String>)> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("{name} does not start"))?;
        let pid = child.id().with_context(|| format!("{name} ended at once"))?;
        let stderr = child.stderr.take().expect("standard error was piped");
        let (said, (hear, heard)) = (Arc::<Mutex<VecDeque<String>>>::default(), oneshot::channel());
        let lines = Arc::clone(&said);
        tokio::spawn(async move {
            let (mut reader, mut hear) = (BufReader::new(stderr).lines(), Some(hear));
            while let Ok(Some(line)) = reader.next_line().await {
                if let Some(rest) = line.strip_prefix(announcement)
                    && let Some(hear) = hear.take()
                {
                    // Nobody listens where nothing is awaited.
                    let _ = hear.send(rest.to_owned());
                }
                let mut lines = lines.lock().expect("nothing panics while it holds this lock");
                lines.push_back(line);
                let surplus = lines.len().saturating_sub(LINES_MAX);
                lines.drain(..surplus);
            }
        });
        Ok((Self { name, child, pid, said }, heard))
    }
}
