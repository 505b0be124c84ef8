//! The backend: one process for each request, some of which stop on the way.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{process::PATIENCE, servers::python::VirtualEnvironment};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/transactional-payments");
const WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transactional/worker.py");

/// The service. Dropping it ends it with all its processes, stopped ones too.
pub(crate) struct Workers {
    child: Child,
    pub(crate) address: String,
    log: Receiver<String>,
    seen: Vec<String>,
}

impl Workers {
    /// Starts the service on a free port, with its payments in this database.
    pub(crate) fn start(database: &str) -> Self {
        let environment = VirtualEnvironment::with(&Path::new(EXAMPLE).join("requirements.txt")).unwrap();
        let mut python = environment.program("python");
        python.args([WORKER, "0"]).env("EXAMPLE", EXAMPLE).env("DATABASE", database);
        // Their own group, by which all of them are found at the end.
        python.env("PYTHONDONTWRITEBYTECODE", "1").process_group(0);
        python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let (sender, log) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut workers = Self { child, address: String::new(), log, seen: Vec::new() };
        workers.address = workers.wait_for("listening on");
        workers
    }

    /// Waits until so many workers have stopped; their processes by the keys of their requests.
    pub(crate) fn wait_for_stops(&mut self, count: usize) -> HashMap<String, Pid> {
        (0..count)
            .map(|_| {
                let (key, process) = self.wait_for("stops").split_once(' ').map(own).unwrap();
                (key, Pid::from_raw(process.parse().unwrap()).unwrap())
            })
            .collect()
    }

    /// Lets a stopped worker go on.
    pub(crate) fn go_on(process: Pid) {
        kill_process(process, Signal::CONT).unwrap();
    }

    /// Waits until so many workers have been fenced; the keys of their requests.
    pub(crate) fn wait_for_fenced(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.wait_for("fenced").split_once(' ').map(own).unwrap().0).collect()
    }

    /// How many workers have been fenced and were not waited for.
    pub(crate) fn fenced_so_far(&mut self) -> usize {
        self.seen.extend(self.log.try_iter());
        self.seen.iter().filter(|line| line.starts_with("fenced ")).count()
    }

    /// Waits for a line that begins so, takes it out of those seen, and returns the rest of it.
    fn wait_for(&mut self, event: &str) -> String {
        let begins = |line: &String| line.strip_prefix(event).is_some_and(|rest| rest.starts_with(' '));
        loop {
            if let Some(index) = self.seen.iter().position(begins) {
                let line = self.seen.remove(index);
                return line[event.len() + 1..].to_owned();
            }
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no worker {event}: {:#?}", self.seen),
            }
        }
    }
}

fn own((key, process): (&str, &str)) -> (String, String) {
    (key.to_owned(), process.to_owned())
}

impl Drop for Workers {
    fn drop(&mut self) {
        // An error means that they have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the workers' log: {:#?}", self.seen);
        }
    }
}
