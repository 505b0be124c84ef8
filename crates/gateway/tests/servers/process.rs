//! A server in a process of its own: started, awaited by what it logs, and stopped with its test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait until a server says that it is ready: generous, since a loaded machine starts slowly.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Longest wait until a server and its children have ended after the signal; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Lines of log kept for the message of a failure.
const LOG_LINES_MAX: usize = 200;

/// A running server. Dropping it, also while a test panics, ends it and waits for its end.
pub(crate) struct ServerProcess {
    name: &'static str,
    child: Child,
    stop: Signal,
    log: Arc<Mutex<VecDeque<String>>>,
    /// Disconnects when the log ends, which is when the server and all children that it left its log to have ended.
    log_end: Receiver<()>,
}

impl ServerProcess {
    /// Starts `command` and waits until `ready` finds what it looks for in the lines of its standard error.
    ///
    /// `stop` is the signal that ends the server.
    ///
    /// # Errors
    ///
    /// The program cannot be started, ends early, or is not ready in time; the text has the end of its log.
    pub(crate) fn start<T>(
        name: &'static str,
        mut command: Command,
        stop: Signal,
        mut ready: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<(Self, T)> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name} as {command:?}"))?;
        let stderr = child.stderr.take().expect("standard error was piped");
        let log = Arc::default();
        let (lines, logged) = mpsc::channel();
        let (end, log_end) = mpsc::channel();
        thread::spawn({
            let log = Arc::clone(&log);
            move || follow(stderr, &log, &lines, end)
        });
        let server = Self { name, child, stop, log, log_end };

        let deadline = Instant::now() + START_LIMIT;
        loop {
            match logged.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(value) = ready(&line) {
                        return Ok((server, value));
                    }
                }
                Err(RecvTimeoutError::Timeout) => bail!("{name} is not ready after {START_LIMIT:?}:\n{}", server.log()),
                Err(RecvTimeoutError::Disconnected) => bail!("{name} ended at its start:\n{}", server.log()),
            }
        }
    }

    /// Ends it by another signal than usual, and waits for its end.
    #[allow(dead_code, reason = "for servers whose files are kept")]
    pub(crate) fn stop_by(mut self, signal: Signal) {
        self.stop = signal;
    }

    /// The last lines that the server logged.
    pub(crate) fn log(&self) -> String {
        let lines = self.log.lock().expect("the reader of the log does not panic");
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Errors are not shown: they mean that it has ended already, and a panic here would hide the test's own.
        let _ = kill_process(Pid::from_child(&self.child), self.stop);
        if self.log_end.recv_timeout(STOP_LIMIT) == Err(RecvTimeoutError::Timeout) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the log of {} ended with:\n{}", self.name, self.log());
        }
    }
}

/// Reads the log to its end, so that the server never blocks on a full pipe. Dropping `_end` reports the end.
fn follow(stderr: impl Read, log: &Mutex<VecDeque<String>>, lines: &Sender<String>, _end: Sender<()>) {
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut log = log.lock().expect("no holder of the log panics");
        if log.len() == LOG_LINES_MAX {
            log.pop_front();
        }
        log.push_back(line.clone());
        // Nobody listens any more once the server is ready.
        let _ = lines.send(line);
    }
}
