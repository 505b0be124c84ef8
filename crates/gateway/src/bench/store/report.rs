//! The report: tables for people, or one JSON object for programs.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use comfy_table::Table;
use oncegate_store::postgres::yardstick::{About, Sizes};
use serde_json::{Map, Value, json};

use super::{
    Size,
    load::number,
    lone::Lone,
    postgres::{MANY, POOLS},
    row::Row,
};
use crate::bench::target::{Bound, Target, cpus, median, table};

// === types ===

/// All rounds, and what was measured.
#[derive(Debug)]
pub(super) struct Report {
    kind: Kind,
    size: Size,
    /// The address, without a password.
    pub(super) store: String,
    pub(super) server: Option<About>,
    pub(super) growth: Option<Growth>,
    /// What a reader has to know beside the figures.
    pub(super) notes: Vec<String>,
    pub(super) rounds: Vec<Round>,
    /// How far PostgreSQL was behind an outbox at most, in each round.
    pub(super) lags: Vec<Duration>,
}

/// What is compared with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The store with the plain recipe.
    Postgres,
    /// The store with itself, one commit for each verb.
    Sqlite,
    /// The store with itself beside few records.
    Growth,
    /// Guarded handlers with the same one, bare.
    Strategies,
    /// The store with `redis-benchmark`.
    Redis,
    /// The store behind a Redis with an outbox, with the same without one.
    Outbox,
}

/// One round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) rows: Vec<Row>,
    pub(super) lone: Option<Lone>,
}

/// How much there was beside what was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) rows: u64,
    pub(super) few: u64,
    /// The larger tables after they were filled, and at the end.
    pub(super) filled: Sizes,
    pub(super) after: Sizes,
}

// === impl Report ===

impl Report {
    pub(super) fn new(kind: Kind, size: Size, store: String) -> Self {
        Self { kind, size, store, server: None, growth: None, notes: Vec::new(), rounds: Vec::new(), lags: Vec::new() }
    }

    /// Whether every cycle that was reported was found again.
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
        for (name, figure) in self.figures().into_iter().filter(|(_, figure)| figure.is_finite()) {
            writeln!(out, "{name} = {figure:.2}")?;
        }
        for (name, value) in self.server.iter().flat_map(|about| &about.settings) {
            writeln!(out, "{name} = {value}")?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for fault in self.faults() {
            writeln!(out, "FAULT: {fault}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let Size { callers, seconds, rounds } = self.size;
        let mut json = Map::new();
        // A figure that could not be had is null.
        json.extend(self.figures().into_iter().map(|(name, figure)| (name.to_owned(), json!(figure))));
        let rows = self.names().into_iter().map(|name| {
            let figures = Row::FIGURES.iter().map(|(figure, _)| ((*figure).to_owned(), json!(self.of(&name, figure))));
            let counts = |of: fn(&Row) -> u64| self.rows(&name).map(of).sum::<u64>();
            let mut row: Map<_, _> = figures.collect();
            row.insert("row".to_owned(), json!(name));
            row.insert("callers".to_owned(), json!(self.rows(&name).next().map(|row| row.callers)));
            row.insert("cycles".to_owned(), json!(counts(|row| row.seen.cycles)));
            row.insert("rows_counted".to_owned(), json!(counts(|row| row.counted)));
            Value::Object(row)
        });
        json.insert("rows".to_owned(), rows.collect());
        json.insert("targets".to_owned(), self.targets().iter().map(Target::json).collect());
        for (name, value) in [
            ("store", json!(self.store)),
            ("callers", json!(callers)),
            ("seconds", json!(seconds)),
            ("rounds", json!(rounds)),
            ("cpus", json!(cpus())),
            ("notes", json!(self.notes)),
            ("faults", json!(self.faults())),
        ] {
            json.insert(name.to_owned(), value);
        }
        if let Some(about) = &self.server {
            let settings: Map<_, _> = about.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json.insert("server_version".to_owned(), json!(about.version));
            json.insert("settings".to_owned(), Value::Object(settings));
        }
        Value::Object(json)
    }

    fn rows_table(&self) -> Table {
        let title = [
            "",
            "cycles/s",
            "claim p50 ms",
            "p99 ms",
            "complete p50 ms",
            "p99 ms",
            "verbs/commit",
            "client µs",
            "server µs",
            "WAL bytes",
        ];
        let mut table = table(&title);
        for name in self.names() {
            let figures = Row::FIGURES.iter().map(|(figure, _)| short(self.of(&name, figure)));
            table.add_row(std::iter::once(name.clone()).chain(figures));
        }
        table
    }

    /// What the run was for, by the names of the JSON.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        let per_second = |name: &str| self.of(name, "cycles_per_second");
        match self.kind {
            Kind::Postgres => {
                let best = POOLS.into_iter().max_by(|one, other| {
                    let [one, other] = [one, other].map(|pool| per_second(&format!("plain-{pool}")));
                    // What was not measured is no best.
                    one.max(0.0).total_cmp(&other.max(0.0))
                });
                let best = best.unwrap_or_default();
                let lone =
                    |of: fn(&Lone) -> f64| median(self.rounds.iter().filter_map(|round| round.lone.as_ref()).map(of));
                vec![
                    ("cycles_per_second", per_second("ours")),
                    ("plain_cycles_per_second", per_second(&format!("plain-{best}"))),
                    ("plain_pool", number(best as u64)),
                    ("plain_256_cycles_per_second", per_second(&format!("plain-{MANY}"))),
                    ("ratio", self.ratio("ours", &POOLS.map(|pool| format!("plain-{pool}")))),
                    ("ratio_256", self.ratio("ours", &[format!("plain-{MANY}")])),
                    ("lone_claim_p50_micros", lone(|lone| lone.micros()[0])),
                    ("lone_plain_insert_p50_micros", lone(|lone| lone.micros()[1])),
                    ("lone_ratio", lone(Lone::ratio)),
                ]
            }
            Kind::Sqlite => vec![
                ("cycles_per_second", per_second("ours")),
                ("one_commit_cycles_per_second", per_second("one-commit")),
                ("ratio", self.ratio("ours", &["one-commit".to_owned()])),
                ("lone_ratio", self.ratio("ours-alone", &["one-commit-alone".to_owned()])),
            ],
            Kind::Growth => self.growth_figures(),
            Kind::Redis => vec![
                ("cycles_per_second", per_second("ours")),
                ("claims_per_second", per_second("ours-claims")),
                ("benchmark_claims_per_second", per_second("benchmark-claims")),
                ("benchmark_set_per_second", per_second("benchmark-set")),
                ("ratio", self.ratio("ours-claims", &["benchmark-claims".to_owned()])),
            ],
            Kind::Outbox => vec![
                ("cycles_per_second", per_second("outbox")),
                ("authoritative_cycles_per_second", per_second("authoritative")),
                ("ratio", self.ratio("outbox", &["authoritative".to_owned()])),
                ("drained_per_second", per_second("drained")),
                ("lag_max_seconds", self.lags.iter().map(Duration::as_secs_f64).fold(0.0, f64::max)),
            ],
            Kind::Strategies => vec![
                ("bare_requests_per_second", per_second("bare")),
                ("claim_ratio", self.ratio("claim", &["bare".to_owned()])),
                ("enter_ratio", self.ratio("enter", &["bare".to_owned()])),
            ],
        }
    }

    fn growth_figures(&self) -> Vec<(&'static str, f64)> {
        let Some(Growth { rows, few, filled, after }) = self.growth else { return Vec::new() };
        let each = |bytes: u64| number(bytes) / number(filled.records.max(1));
        let added = |of: fn(&Sizes) -> u64| {
            number(of(&after).saturating_sub(of(&filled))) / number((after.records - filled.records).max(1))
        };
        vec![
            ("cycles_per_second", self.of("ours-large", "cycles_per_second")),
            ("small_cycles_per_second", self.of("ours-small", "cycles_per_second")),
            ("ratio", self.ratio("ours-large", &["ours-small".to_owned()])),
            ("large_rows", number(rows)),
            ("small_rows", number(few)),
            ("wal_bytes_per_cycle", self.of("ours-large", "wal_bytes_per_cycle")),
            ("small_wal_bytes_per_cycle", self.of("ours-small", "wal_bytes_per_cycle")),
            ("record_table_bytes", each(filled.records_table)),
            ("record_index_bytes", each(filled.records_indexes)),
            ("response_table_bytes", each(filled.responses_table)),
            ("response_index_bytes", each(filled.responses_indexes)),
            ("record_table_bytes_added_per_cycle", added(|sizes| sizes.records_table)),
            ("record_index_bytes_added_per_cycle", added(|sizes| sizes.records_indexes)),
            ("response_table_bytes_added_per_cycle", added(|sizes| sizes.responses_table)),
            ("response_index_bytes_added_per_cycle", added(|sizes| sizes.responses_indexes)),
        ]
    }

    /// What has to be, where it was measured under the conditions that it is said for.
    fn targets(&self) -> Vec<Target> {
        let figures = self.figures();
        let measured = |name| figures.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, figure)| *figure);
        let target = |what, name, bound| Target { what, measured: measured(name), bound };
        let targets = match self.kind {
            Kind::Postgres => vec![
                target("cycles/s, of the plain recipe's at its best pool", "ratio", Bound::AtLeast(4.0)),
                target("cycles/s, of the plain recipe's with 256 connections", "ratio_256", Bound::AtLeast(8.0)),
                target("a lone caller's claim, p50, of a plain INSERT", "lone_ratio", Bound::AtMost(1.1)),
            ],
            Kind::Sqlite => vec![target("cycles/s, of one commit for each verb", "ratio", Bound::AtLeast(6.0))],
            Kind::Redis => {
                vec![target("claims/s, of redis-benchmark's with the same claim", "ratio", Bound::AtLeast(0.5))]
            }
            Kind::Outbox => vec![
                target("cycles/s with an outbox, of those without", "ratio", Bound::AtLeast(1.0)),
                target("records/s that are drained", "drained_per_second", Bound::AtLeast(15_000.0)),
                target("how far PostgreSQL was behind at most, s", "lag_max_seconds", Bound::AtMost(1.0)),
            ],
            // A handler of one INSERT is the least that there is; what is promised is said of a real one.
            Kind::Strategies => Vec::new(),
            Kind::Growth => vec![target("cycles/s, of those beside few records", "ratio", Bound::AtLeast(0.6))],
        };
        targets.into_iter().filter(|target| target.measured.is_finite()).collect()
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (round, number) in self.rounds.iter().zip(1..) {
            faults.extend(round.rows.iter().filter_map(Row::fault).map(|fault| format!("round {number}, {fault}")));
            let without = |row: &&Row| row.counters.is_some_and(|counted| !counted.had_checkpoint);
            if self.kind == Kind::Growth
                && let Some(row) = round.rows.iter().find(without)
            {
                faults.push(format!("round {number}, {}: there was no checkpoint in it", row.name));
            }
        }
        faults
    }

    /// The rows' names, in the order in which they were measured.
    fn names(&self) -> Vec<String> {
        self.rounds.first().map(|round| round.rows.iter().map(|row| row.name.clone()).collect()).unwrap_or_default()
    }

    /// The same row in each round.
    fn rows<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rounds.iter().filter_map(move |round| round.row(name))
    }

    /// The median of a row's figure.
    fn of(&self, name: &str, figure: &str) -> f64 {
        median(self.rows(name).map(|row| row.figure(figure)))
    }

    /// How many times the best of the others a row is: each within its round, then the median.
    fn ratio(&self, name: &str, others: &[String]) -> f64 {
        median(self.rounds.iter().filter_map(|round| {
            let best = others.iter().filter_map(|other| round.row(other)).map(|row| row.seen.per_second());
            Some(round.row(name)?.seen.per_second() / best.reduce(f64::max)?)
        }))
    }
}

// === impl Round ===

impl Round {
    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// As exact as a person reads.
fn short(figure: f64) -> String {
    match figure {
        figure if !figure.is_finite() => String::new(),
        figure if figure < 100.0 => format!("{figure:.2}"),
        figure => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests;
