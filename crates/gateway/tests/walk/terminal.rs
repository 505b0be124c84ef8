//! Terminals: one in which commands run one after the other, and one for each that goes on running.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{command::Ready, place::Place};

/// Longest wait for anything; a test that fails ends by it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stands behind what a command printed, with its exit code.
const END: &str = "the command has ended with";

/// A shell that keeps what its commands define.
pub(crate) struct Terminal {
    shell: Child,
    lines: Receiver<String>,
}

/// A command that goes on running.
pub(crate) struct Running {
    command: String,
    child: Child,
    lines: Receiver<String>,
    printed: String,
}

// === impl Terminal ===

impl Terminal {
    pub(crate) fn open(place: &Place) -> Self {
        let mut command = place.command("bash");
        let (child, lines) = start(command.arg("--norc").stdin(Stdio::piped()));
        Self { shell: child, lines }
    }

    /// Runs a command to its end; what it printed, on both outputs as a person sees them, and its exit code.
    pub(crate) fn run(&mut self, command: &str) -> (String, i32) {
        // The shell reads its commands from its input, which a command must not eat.
        let line = format!("{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' '{END}' \"$?\"\n");
        self.shell.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let (deadline, mut printed) = (Instant::now() + PATIENCE, String::new());
        loop {
            let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                panic!("{command:?} does not end, or ended the shell:\n{printed}");
            };
            if let Some(code) = line.strip_prefix(END) {
                // The line break before the end is not the command's.
                return (printed.strip_suffix('\n').unwrap_or(&printed).to_owned(), code.trim().parse().unwrap());
            }
            printed += &format!("{line}\n");
        }
    }
}

impl Terminal {
    /// Another shell, in the same folder and with what was exported in this one.
    pub(crate) fn another(&mut self, place: &Place) -> Command {
        let file = place.file("/var/lib/oncegate/environment");
        let (printed, code) = self.run(&format!("env -0 > '{}'", file.display()));
        assert_eq!(code, 0, "{printed}");
        let environment = fs::read_to_string(file).unwrap();
        let variables = environment.split_terminator('\0').map(|variable| variable.split_once('=').unwrap());
        let mut shell = place.command("bash");
        shell.env_clear().envs(variables);
        shell
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Without input it ends; an error means that it has.
        drop(self.shell.stdin.take());
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

// === impl Running ===

impl Running {
    /// Starts a command and waits until it is ready.
    pub(crate) fn start(mut shell: Command, command: &str, ready: Ready) -> Self {
        // The shell becomes the program, so that the program can be stopped by its id.
        let (child, lines) = start(shell.args(["--norc", "-c", command]));
        let mut running = Self { command: command.to_owned(), child, lines, printed: String::new() };
        match ready {
            Ready::Says(words) => running.wait_for(words),
            Ready::Accepts(address) => running.wait_until_it_accepts(address),
        }
        running
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed until now.
    pub(crate) fn printed(&mut self) -> String {
        self.printed.extend(self.lines.try_iter().map(|line| line + "\n"));
        self.printed.clone()
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn stop(mut self) {
        let (status, printed) = (self.end(), self.printed());
        let is_ours = self.command.contains("oncegate") || self.command.contains("cargo run");
        assert!(!is_ours || status.success(), "{} ended with {status}:\n{}", self.command, printed);
    }

    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.printed.lines().any(|line| line.contains(words)) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.printed += &format!("{line}\n"),
                Err(_) => panic!("{} does not say {words:?}:\n{}", self.command, self.printed),
            }
        }
    }

    fn wait_until_it_accepts(&mut self, address: &str) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let (has_ended, printed) = (self.child.try_wait().unwrap().is_some(), self.printed());
            assert!(!has_ended && Instant::now() < deadline, "{} is not at {address}: {}", self.command, printed);
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(&mut self) -> ExitStatus {
        if let Some(status) = self.child.try_wait().unwrap() {
            return status;
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a program with both outputs in one pipe, so that their order is kept.
fn start(command: &mut Command) -> (Child, Receiver<String>) {
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let child = command.spawn().unwrap();
    // The command keeps the pipe's other end open for as long as it lives.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    (child, lines(reader))
}

fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
    });
    lines
}
