//! One row of one round.

use std::time::Duration;

use super::load::{Seen, number};

/// What one way to guard requests did, and what it cost.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) callers: usize,
    pub(super) seen: Seen,
    /// What was found completed afterwards, and should be as many as the cycles.
    pub(super) counted: u64,
    /// CPU time of this process: callers and store.
    pub(super) client_cpu: Duration,
    /// CPU time of the server's processes, where they can be seen.
    pub(super) server_cpu: Option<Duration>,
    /// What the server counted, where there is one.
    pub(super) counters: Option<Counted>,
}

/// What a server counted during a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) commits: u64,
    pub(super) wal_bytes: u64,
    pub(super) had_checkpoint: bool,
}

/// A figure of a row; median over the rounds it is reported.
pub(super) type Figure = (&'static str, fn(&Row) -> f64);

// === impl Row ===

impl Row {
    /// What is reported of each row, in this order.
    pub(super) const FIGURES: [Figure; 9] = [
        ("cycles_per_second", |row| row.seen.per_second()),
        ("claim_p50_ms", |row| millis(row.seen.first.value_at_quantile(0.5))),
        ("claim_p99_ms", |row| millis(row.seen.first.value_at_quantile(0.99))),
        ("complete_p50_ms", |row| millis(row.seen.second.value_at_quantile(0.5))),
        ("complete_p99_ms", |row| millis(row.seen.second.value_at_quantile(0.99))),
        ("verbs_per_commit", |row| {
            row.counters.map_or(f64::NAN, |counted| row.verbs() / number(counted.commits.max(1)))
        }),
        ("client_cpu_micros_per_cycle", |row| row.seen.share_of(micros(row.client_cpu))),
        ("server_cpu_micros_per_cycle", |row| row.server_cpu.map_or(f64::NAN, |cpu| row.seen.share_of(micros(cpu)))),
        ("wal_bytes_per_cycle", |row| row.counters.map_or(f64::NAN, |of| row.seen.share_of(number(of.wal_bytes)))),
    ];

    /// What was seen, and nothing else of it.
    pub(super) fn of(seen: Seen) -> Self {
        let (client_cpu, callers) = (Duration::ZERO, 0);
        Self { name: String::new(), callers, counted: seen.cycles, seen, client_cpu, server_cpu: None, counters: None }
    }

    pub(super) fn figure(&self, name: &str) -> f64 {
        let figure = Self::FIGURES.iter().find(|(known, _)| *known == name);
        figure.map_or(f64::NAN, |(_, of)| of(self))
    }

    /// Why its figures mean nothing.
    pub(super) fn fault(&self) -> Option<String> {
        let (name, cycles, counted) = (&self.name, self.seen.cycles, self.counted);
        if cycles == 0 {
            return Some(format!("{name}: no cycle ended in time"));
        }
        (cycles != counted).then(|| format!("{name}: {cycles} cycles were reported and {counted} completed rows found"))
    }

    /// Claims and completions.
    fn verbs(&self) -> f64 {
        2.0 * number(self.seen.cycles)
    }
}

fn millis(micros: u64) -> f64 {
    number(micros) / 1000.0
}

pub(super) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
