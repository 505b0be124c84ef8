//! Workers that are killed in the middle of their work, behind a gate that the project knows.

use std::{
    collections::HashMap,
    io::Write as _,
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use rustix::process::{Signal, kill_process};

use crate::{
    http::{self, Message},
    once::{ONCE, SECRET, gate, known},
    process::PATIENCE,
    servers::gunicorn::GunicornServer,
    storm::{KEYS_NOT_PAID_ONCE, serve_example},
};

/// Enough for all threads of all workers to be at work.
const CLIENTS: usize = 24;

/// Between two repeats; a client would take longer.
const PAUSE: Duration = Duration::from_millis(50);

fn kills() -> usize {
    std::env::var("ONCEGATE_KILLS").map_or(3, |kills| kills.parse().expect("ONCEGATE_KILLS is a number"))
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    /// Whether everything that was to happen has happened.
    is_over: AtomicBool,
    /// Answers that say that a worker has gone with its request: the gate's own, and those that break off.
    interrupted: AtomicUsize,
    /// The body of the success that each key's client was told.
    answers: Mutex<HashMap<String, String>>,
}

#[test]
fn a_worker_that_is_killed_behind_a_gate_that_it_knows_costs_no_payment_and_no_key() -> anyhow::Result<()> {
    let (project, backend) = serve_example(&[("ONCEGATE_SECRET", SECRET)])?;
    let gate = gate(&project, &backend, &format!("{}\nupstream_timeout = \"2s\"\nlease = \"2s\"", known()));
    let (address, seen) = (&gate.address, Seen::default());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let seen = &seen;
            scope.spawn(move || seen.pay(address, client));
        }
        // Clients must end also when a kill fails.
        let killed = wait_until("all clients are at work", || seen.paid() > CLIENTS)
            .and_then(|()| (0..kills()).try_for_each(|_| seen.kill_a_working_worker(&backend)));
        seen.is_over.store(true, Ordering::SeqCst);
        killed
    })?;

    let answers = seen.answers.into_inner().unwrap();
    for (key, body) in &answers {
        let repeat = pay(address, key);
        assert_eq!(
            (repeat.status(), repeat.field("idempotent-replayed"), &repeat.body),
            (201, Some("true"), body),
            "{key}"
        );
    }
    let (keys, interrupted) = (answers.len(), seen.interrupted.into_inner());
    let second = project.query("SELECT count(*) FROM oncegate.records WHERE attempt > 1")?;
    eprintln!("{keys} keys, {} kills, {interrupted} requests interrupted, {second} taken over", kills());
    assert_eq!(project.query("SELECT count(*) FROM payments_payment")?, keys.to_string());
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    let others =
        "SELECT count(*) FROM oncegate.records WHERE state <> 'completed' OR owner IS NOT NULL OR scope = 'python'";
    assert_eq!(project.query(others)?, "0", "each record is the gate's, and the view completed it");
    Ok(())
}

// === impl Seen ===

impl Seen {
    /// Pays new keys, each until it is paid.
    fn pay(&self, address: &str, client: usize) {
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let key = format!("client-{client}-payment-{number}");
            let answer = self.pay_until_decided(address, &key);
            self.answers.lock().unwrap().insert(key, answer.body);
        }
    }

    fn pay_until_decided(&self, address: &str, key: &str) -> Message {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = pay(address, key);
            match (answer.status(), answer.field("oncegate-problem")) {
                (201, None) if is_whole(&answer) => return answer,
                // Gunicorn sends the head of an answer by itself. The gate waits 20 ms for the rest, and then passes the
                // head on: who sees the connection end behind it knows no more than who got nothing.
                (201, None) | (502, Some("upstream-failed")) => _ = self.interrupted.fetch_add(1, Ordering::SeqCst),
                // A worker that went with a new connection on which nothing had been sent yet.
                (502, Some("upstream-unreachable")) => {}
                (409, Some("in-flight")) | (504, Some("upstream-timeout")) => {}
                (status, problem) => panic!("{key}: {status} {problem:?} {}", answer.body),
            }
            assert!(Instant::now() < deadline, "{key} stays blocked");
            thread::sleep(PAUSE);
        }
    }

    /// Kills workers until one has taken a request along.
    fn kill_a_working_worker(&self, backend: &GunicornServer) -> anyhow::Result<()> {
        let before = self.interrupted.load(Ordering::SeqCst);
        while self.interrupted.load(Ordering::SeqCst) == before {
            let worker = *backend.workers().first().context("no worker has booted")?;
            kill_process(worker, Signal::KILL)?;
            wait_until("another worker takes its place", || !backend.workers().contains(&worker))?;
            let paid = self.paid();
            wait_until("all clients are at work", || self.paid() > paid + CLIENTS)?;
        }
        Ok(())
    }

    fn paid(&self) -> usize {
        self.answers.lock().unwrap().len()
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        ensure!(Instant::now() < deadline, "it never came to be that {what}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether the body is as long as its head says.
fn is_whole(answer: &Message) -> bool {
    answer.field("content-length") == Some(&answer.body.len().to_string())
}

fn pay(address: &str, key: &str) -> Message {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"amount": "12.50", "currency": "EUR"}"#;
    let fields = format!("Idempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    write!(stream, "POST {ONCE} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n\r\n{body}").unwrap();
    http::read(&mut stream).expect("the gate answers")
}
