//! The real binary: run to its end, or started, listened to and stopped.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest wait for anything. Nothing is expected to take that long; a test that fails ends by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A command of the binary that sees nothing of the surrounding environment but what the test gives it.
pub(crate) fn oncegate(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"ONCEGATE") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    oncegate(directory, arguments).envs(variables.iter().copied()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A running `oncegate serve`. Dropping it kills it.
pub(crate) struct Gate {
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
    pub(crate) address: String,
    pub(crate) admin: String,
    pub(crate) directory: TempDir,
}

impl Gate {
    /// Starts a gate in an empty directory with the least that it needs, and waits until it listens.
    pub(crate) fn start(upstream: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), upstream, &[], &[])
    }

    /// Starts a gate in this directory with more flags and variables.
    pub(crate) fn start_in(directory: TempDir, upstream: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let fixed = ["--upstream", upstream, "--listen", "127.0.0.1:0"];
        let mut gate = Self::start_admin_in(directory, &[&fixed, arguments].concat(), variables);
        gate.address = gate.wait_for("listening on http://");
        gate
    }

    /// Starts it with these flags, and waits for its admin listener only.
    pub(crate) fn start_admin_in(directory: TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = oncegate(directory.path(), &[&["serve", "--admin", "127.0.0.1:0"], arguments].concat());
        // A busy machine is no store that is down; a test may bring another timeout.
        command.env("ONCEGATE__STORE__TIMEOUT", "20s").envs(variables.iter().copied());
        Self::start_as(command, directory)
    }

    /// Starts what the test has put together, and waits for its admin listener only.
    pub(crate) fn start_as(mut command: Command, directory: TempDir) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, log) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Read to its end, so that the gate never blocks on a full pipe.
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut gate = Self { child, log, seen: Vec::new(), address: String::new(), admin: String::new(), directory };
        gate.admin = gate.wait_for("admin on http://");
        gate
    }

    /// Waits for a line of the log and returns what stands behind `text` in it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else { panic!("no {text:?} in the log: {:#?}", self.seen) };
            self.seen.push(line.clone());
            if let Some((_, behind)) = line.split_once(text) {
                return behind.trim_end_matches(['"', '}']).to_owned();
            }
        }
    }

    /// What the log had so far.
    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the process to end by itself; returns the directory, to start another gate in it.
    pub(crate) fn wait(mut self) -> (ExitStatus, TempDir) {
        let deadline = Instant::now() + PATIENCE;
        // The log ends with the process.
        while let Ok(line) = self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.seen.push(line);
        }
        assert!(Instant::now() < deadline, "it does not end: {:#?}", self.seen);
        let status = self.child.wait().unwrap();
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        (status, directory)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the gate's log: {:#?}", self.seen);
        }
    }
}
