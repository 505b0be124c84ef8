//! `kill -9` at every named point of the flow, under load, before a SQLite store.
//!
//! What must hold: an answer that a client received is never lost; a plain backend never sees a
//! second execution (the record is unknown instead); an idempotent one is taken over after its lease.
//! `ONCEGATE_KILLS=20` sets how often each point is met; the table says what was in flight.
#![cfg(feature = "crash-points")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and reports by printing")]

mod client;
mod gate;
mod round;
mod upstream;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use oncegate_core::Backend;

use self::round::{Round, Tally};

const POINTS: [&str; 6] =
    ["claimed", "dispatched", "head_received", "body_received", "before_complete", "after_complete"];

fn kills() -> usize {
    std::env::var("ONCEGATE_KILLS").map_or(2, |kills| kills.parse().expect("ONCEGATE_KILLS is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_backend_never_sees_a_second_execution() {
    let tallies = tallied(Backend::Plain).await;
    for (point, tally) in POINTS.iter().zip(&tallies) {
        assert_eq!((tally.second_executions, tally.takeovers), (0, 0), "{point}: executed again");
        assert!(tally.unknown > 0 || *point == "after_complete", "{point}: nothing became unknown");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_backend_is_taken_over_after_its_lease() {
    let tallies = tallied(Backend::Idempotent).await;
    for (point, tally) in POINTS.iter().zip(&tallies) {
        assert_eq!(tally.unknown, 0, "{point}: a record stayed unknown");
        assert!(tally.takeovers > 0 || *point == "after_complete", "{point}: nothing was taken over");
    }
}

/// Kills at each point in turn, prints what happened, and checks what holds before every backend.
async fn tallied(backend: Backend) -> Vec<Tally> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "backend",
        "point",
        "kill",
        "answered",
        "in flight",
        "replayed",
        "executed",
        "taken over",
        "unknown",
        "second executions",
        "lost answers",
    ]);
    let mut tallies = Vec::new();
    for point in POINTS {
        let mut sum = Tally::default();
        for kill in 1..=kills() {
            let tally = Round { backend, point, kill }.run().await;
            table.add_row(row(backend, point, &kill.to_string(), &tally));
            sum.add(&tally);
        }
        assert_eq!(sum.lost_answers, 0, "{point}: an answer was lost");
        table.add_row(row(backend, point, "all", &sum));
        tallies.push(sum);
    }
    println!("{table}");
    tallies
}

fn row(backend: Backend, point: &str, kill: &str, tally: &Tally) -> Vec<String> {
    let counts = [
        tally.answered,
        tally.in_flight,
        tally.replayed,
        tally.executed,
        tally.takeovers,
        tally.unknown,
        tally.second_executions,
        tally.lost_answers,
    ];
    let named = [backend.as_str(), point, kill].map(str::to_owned);
    named.into_iter().chain(counts.map(|count| count.to_string())).collect()
}
