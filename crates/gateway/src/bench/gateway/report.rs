//! The report: tables for people, or one JSON object for programs.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use comfy_table::Table;
use serde_json::{Value, json};

use super::round::{Between, Measured, Round};
use crate::bench::target::{self, Bound, Target, cpus, table};

/// What is allowed beside two commits at a hundred requests a second.
const ADDED_MICROS_MAX: f64 = 300.0;

/// All rounds.
#[derive(Debug)]
pub(super) struct Report {
    seconds: u32,
    commits: Duration,
    rounds: Vec<Round>,
}

/// The medians of one row.
struct Row {
    between: Between,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Microseconds of CPU time per request.
    proxy: f64,
    upstream: f64,
    wrk: f64,
    postgres: f64,
    redis: f64,
}

// === impl Report ===

impl Report {
    /// `commits`: what a claim and a completion take with nobody else there.
    pub(super) fn new(seconds: u32, commits: Duration) -> Self {
        Self { seconds, commits, rounds: Vec::new() }
    }

    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// Whether every request was answered with success and came to the upstream as often as it should.
    pub(super) fn is_sound(&self) -> bool {
        self.faults().is_empty()
    }

    /// Writes the report to standard output.
    pub(super) fn print(&self, is_json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if is_json {
            return writeln!(out, "{}", self.json());
        }
        writeln!(out, "{}\n\n{}", self.rows_table(), Target::table(&self.targets()))?;
        for fault in self.faults() {
            writeln!(out, "FAULT: {fault}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let rows = self.rows().map(|row| {
            json!({
                "row": row.between.name(), "between": row.between.meaning(), "requests_per_second": row.per_second,
                "p50_ms": row.p50_ms, "p99_ms": row.p99_ms,
                "cpu_micros_per_request": { "proxy": row.proxy, "upstream": row.upstream, "wrk": row.wrk,
                                            "postgres": row.postgres, "redis": row.redis },
            })
        });
        let targets = self.targets().iter().map(Target::json).collect::<Vec<_>>();
        json!({
            "seconds": self.seconds, "rounds": self.rounds.len(), "cpus": cpus(),
            "two_commits_micros": micros(self.commits), "rows": rows.collect::<Vec<_>>(),
            "targets": targets, "faults": self.faults(),
        })
    }

    fn rows_table(&self) -> Table {
        let title = [
            "between",
            "requests/s",
            "p50 ms",
            "p99 ms",
            "proxy µs",
            "upstream µs",
            "wrk µs",
            "postgres µs",
            "redis µs",
        ];
        let mut table = table(&title);
        for row in self.rows() {
            let numbers = [row.p50_ms, row.p99_ms].map(|number| format!("{number:.2}"));
            let micros =
                [row.proxy, row.upstream, row.wrk, row.postgres, row.redis].map(|number| format!("{number:.1}"));
            let cells = [row.between.meaning().to_owned(), format!("{:.0}", row.per_second)];
            table.add_row(cells.into_iter().chain(numbers).chain(micros));
        }
        table
    }

    fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        Between::ALL.into_iter().map(|between| {
            let median = |of: fn(&Measured) -> f64| self.median(|round| of(round.row(between)));
            Row {
                between,
                per_second: median(|row| row.seen.per_second()),
                p50_ms: median(|row| count(row.seen.p50_micros) / 1000.0),
                p99_ms: median(|row| count(row.seen.p99_micros) / 1000.0),
                proxy: median(|row| row.seen.share_of(row.proxy_cpu)),
                upstream: median(|row| row.seen.share_of(row.upstream_cpu)),
                wrk: median(|row| row.seen.share_of(row.wrk_cpu)),
                postgres: median(|row| row.seen.share_of(row.postgres_cpu)),
                redis: median(|row| row.seen.share_of(row.redis_cpu)),
            }
        })
    }

    /// The rows of `design.md` section 8 that can be measured here: each ratio within its round, then the median.
    fn targets(&self) -> Vec<Target> {
        use Between::{Fresh, Memory, Nginx, Outbox, Passing, Postgres, PostgresFresh, Tiered, Unique};
        use Bound::{AtLeast, AtMost, Stretch};
        let throughput = |row, against| {
            self.median(|round: &Round| round.row(row).seen.per_second() / round.row(against).seen.per_second())
        };
        let added = |round: &Round| count(round.unhurried.unique) - count(round.unhurried.direct);
        let two_commits = micros(self.commits);
        let row = |what, measured, bound| Target { what, measured, bound };
        vec![
            row(
                "passing: CPU per request, of the bare proxy's beside it",
                self.median(|round| round.beside.passing / round.beside.bare),
                AtMost(1.15),
            ),
            row("passing: requests/s, of nginx", throughput(Passing, Nginx), Stretch(0.9)),
            row("unique keys on SQLite: requests/s, of passing", throughput(Unique, Passing), AtLeast(0.6)),
            row("replays from memory: requests/s, of passing", throughput(Memory, Passing), AtLeast(1.2)),
            row("replays after a start: requests/s, of passing", throughput(Fresh, Passing), AtLeast(0.5)),
            row("unique keys on PostgreSQL: requests/s, of passing", throughput(Postgres, Passing), AtLeast(0.4)),
            row("the same replayed after a start, of passing", throughput(PostgresFresh, Passing), AtLeast(0.5)),
            row("unique keys, Redis before PostgreSQL, of passing", throughput(Tiered, Passing), AtLeast(0.35)),
            row("the same with an outbox, of without", throughput(Outbox, Tiered), AtLeast(1.0)),
            row("the same: p50 added at 500/s, of without", self.median(Round::added_by_outbox), AtMost(0.5)),
            row("unique keys: p50 added at 100/s, µs", self.median(added), AtMost(two_commits + ADDED_MICROS_MAX)),
            row(
                "passing: p50 added at 100/s, µs",
                self.median(|round| count(round.unhurried.passing) - count(round.unhurried.direct)),
                AtMost(ADDED_MICROS_MAX),
            ),
        ]
    }

    fn faults(&self) -> Vec<String> {
        let rows = self.rounds.iter().zip(1..).flat_map(|(round, number)| {
            round.rows.iter().filter_map(move |(between, row)| {
                row.fault(*between).map(|fault| format!("round {number}, {}: {fault}", between.meaning()))
            })
        });
        rows.collect()
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        target::median(self.rounds.iter().map(of))
    }
}

// === impl Round ===

impl Round {
    /// What an outbox adds to the latency at 500 requests a second, of what PostgreSQL adds.
    fn added_by_outbox(&self) -> f64 {
        let added = |micros: u64| count(micros) - count(self.busy.direct);
        added(self.busy.outbox) / added(self.busy.authoritative)
    }

    fn row(&self, between: Between) -> &Measured {
        let row = self.rows.iter().find(|(mine, _)| *mine == between);
        &row.expect("a round measures every row").1
    }
}

// === impl Measured ===

impl Measured {
    pub(super) fn fault(&self, between: Between) -> Option<String> {
        let seen = &self.seen;
        if seen.requests == 0 || seen.not_2xx + seen.broken > 0 {
            let (requests, not_2xx, broken) = (seen.requests, seen.not_2xx, seen.broken);
            return Some(format!("of {requests} requests {not_2xx} were no success and {broken} broke"));
        }
        // wrk stops with requests under way, which the upstream has seen and wrk has not.
        let is_as_expected = if between.forwards() { self.forwarded >= seen.requests } else { self.forwarded == 0 };
        (!is_as_expected).then(|| format!("of {} requests {} reached the upstream", seen.requests, self.forwarded))
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[allow(clippy::cast_precision_loss, reason = "counts and microseconds of a run are far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
