//! `/readyz` while another program holds the store's write lock.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    api::api,
    backend::Backend,
    http::{Message, get, pay},
    process::{Gate, PATIENCE},
};

/// Another program that holds the write lock until this is dropped; reading goes on.
struct StoreLock(Child);

impl StoreLock {
    fn take(directory: &Path) -> Self {
        let script = "import sqlite3, sys; lock = sqlite3.connect('oncegate.db', timeout=60, isolation_level=None); \
                      lock.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "locked\n");
        Self(holder)
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // The end of its input ends the program, and with it the lock.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn readiness(gate: &Gate) -> Message {
    get(&gate.admin, "/readyz", "")
}

fn wait_for_status(gate: &Gate, status: u16) {
    let deadline = Instant::now() + PATIENCE;
    while readiness(gate).status() != status {
        assert!(Instant::now() < deadline, "never {status}: {}", readiness(gate).body);
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_store_that_answers_and_cannot_be_written_is_not_ready() {
    let backend = Backend::prompt();
    let gate = Gate::start(&backend.url());
    assert_eq!((readiness(&gate).status(), pay(&gate.address, "k1").status()), (200, 201));

    let lock = StoreLock::take(gate.directory.path());
    wait_for_status(&gate, 503);
    assert_eq!(readiness(&gate).body, "the store cannot be written\n");
    assert_eq!(api(&gate, "/api/records")["records"].as_array().unwrap().len(), 1, "it can be read");
    assert_eq!(pay(&gate.address, "k2").status(), 503, "as it answers every new key");
    assert!(get(&gate.admin, "/metrics", "").body.contains("\noncegate_store_up 0\n"));

    drop(lock);
    wait_for_status(&gate, 200);
    assert!(get(&gate.admin, "/metrics", "").body.contains("\noncegate_store_up 1\n"));
    assert_eq!(pay(&gate.address, "k2").status(), 201);
    let listed = api(&gate, "/api/records");
    assert_eq!(listed["records"].as_array().unwrap().len(), 2, "trying left nothing behind: {listed}");
}
