//! A running demo.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::{PATIENCE, oncegate};

/// `oncegate demo` with a temporary directory of its own. Dropping it asks it to end, so that its gate ends too.
pub(crate) struct Demo {
    child: Child,
    printed: Receiver<String>,
    progress: Receiver<String>,
    directory: TempDir,
}

impl Demo {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = oncegate(directory.path(), &[&["demo"], arguments].concat());
        command.env("TMPDIR", directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let printed = lines(child.stdout.take().unwrap());
        let progress = lines(child.stderr.take().unwrap());
        Self { child, printed, progress, directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The next line on standard output.
    pub(crate) fn next_line(&mut self) -> String {
        match self.printed.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => panic!("no line; it said: {:#?}", self.progress.try_iter().collect::<Vec<_>>()),
        }
    }

    /// All of standard output, to its end.
    pub(crate) fn rest(&mut self) -> String {
        let mut printed = String::new();
        while let Ok(line) = self.printed.recv_timeout(PATIENCE) {
            printed += &format!("{line}\n");
        }
        printed
    }

    pub(crate) fn wait_for_progress(&mut self, beginning: &str) {
        while !self.progress.recv_timeout(PATIENCE).unwrap().starts_with(beginning) {}
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The gates that it has started and that run now: their command lines name its directory.
    pub(crate) fn gates(&self) -> Vec<String> {
        let directory = self.directory.path().to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let command_line = |process: &String| fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        processes.filter(|process| String::from_utf8_lossy(&command_line(process)).contains(directory)).collect()
    }

    /// Waits for its end: the exit code, and what it left in its temporary directory or running.
    pub(crate) fn wait(&mut self) -> (Option<i32>, Vec<String>) {
        let status = self.ended().expect("it ends after the signal");
        let deadline = Instant::now() + PATIENCE;
        // A process that was killed takes a moment to be gone.
        while !self.gates().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        let files = fs::read_dir(self.directory.path()).unwrap();
        let mut left: Vec<_> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.extend(self.gates());
        (status.code(), left)
    }

    fn ended(&mut self) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        self.signal(Signal::TERM);
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads to the end, so that the process never blocks on a full pipe.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
    });
    lines
}
