//! The report: one table for people, or one JSON object for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::EXIT_NO_VERDICT;
use super::lane::Stormed;
use super::latency::{Latencies, Percentiles};
use super::plan::Plan;
use super::tally::{Row, Tally};
use super::verdict::{Execution, Judgement, Scale, Verdict, execution, judge};

/// Rows that are shown to people; keys at fault come first. JSON has them all.
const ROWS_SHOWN_MAX: usize = 20;

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Report {
    scale: Scale,
    rows: Vec<Row>,
    totals: Tally,
    latencies: Latencies,
    elapsed: Duration,
}

/// One column of numbers: its title, its number, and whether it is shown when it is zero for every key.
type Column = (&'static str, fn(&Tally) -> u64, bool);

const COLUMNS: [Column; 13] = [
    ("2xx", |tally| tally.status_2xx, true),
    ("replayed", |tally| tally.replayed, true),
    ("conflicting", |tally| tally.conflicting_replays, false),
    ("409", |tally| tally.status_409, true),
    ("422", |tally| tally.status_422, true),
    ("4xx", |tally| tally.other_4xx, true),
    ("5xx", |tally| tally.status_5xx, true),
    ("other", |tally| tally.other, false),
    ("hung up", |tally| tally.hung_up, false),
    ("not connected", |tally| tally.not_connected, false),
    ("failed", |tally| tally.failed, true),
    ("late", |tally| tally.late, false),
    ("retries", |tally| tally.retries, false),
];

// === impl Report ===

impl Report {
    pub(super) fn new(plan: &Plan, is_counted: bool) -> Self {
        let scale = Scale { keys: plan.keys, concurrency: plan.concurrency, is_counted, stopped: None };
        let (totals, latencies) = (Tally::default(), Latencies::new());
        Self { scale, rows: Vec::new(), totals, latencies, elapsed: Duration::ZERO }
    }

    /// Adds one key; they may come in any order.
    pub(super) fn add(&mut self, stormed: &Stormed) {
        for attempt in stormed.waves.iter().flatten() {
            self.latencies.record(attempt);
        }
        let row = Row::of(stormed);
        self.totals += &row.tally;
        self.rows.push(row);
    }

    /// Notes why the storm ended before the last key.
    pub(super) fn stop(&mut self, reason: String) {
        self.scale.stopped = Some(reason);
    }

    pub(super) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        self.rows.sort_by_key(|row| row.number);
    }

    /// 0 innocent, 1 guilty, 2 no verdict.
    pub(super) fn exit_code(&self) -> u8 {
        match self.verdict().judgement {
            Judgement::Innocent => 0,
            Judgement::Guilty => 1,
            Judgement::None => EXIT_NO_VERDICT,
        }
    }

    /// Writes the report to standard output.
    pub(super) fn print(&self, is_json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match is_json {
            true => writeln!(out, "{}", self.json()),
            false => self.write_for_people(&mut out),
        }
    }

    fn verdict(&self) -> Verdict {
        judge(&self.rows, &self.totals, &self.scale)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "verdict": self.verdict(),
            "keys": self.scale.keys,
            "concurrency": self.scale.concurrency,
            "counted_by": if self.scale.is_counted { "count-url" } else { "answers" },
            "stopped": self.scale.stopped,
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "executions": self.executions(),
            "totals": self.totals,
            "latency_ms": BTreeMap::from_iter(self.latencies.percentiles()),
            "rows": self.rows,
        })
    }

    /// All executions that are known.
    fn executions(&self) -> u64 {
        self.rows.iter().filter_map(|row| row.executions).sum()
    }

    fn write_for_people(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.keys_table())?;
        if self.rows.len() > ROWS_SHOWN_MAX {
            writeln!(out, "{} more keys: see --json", self.rows.len() - ROWS_SHOWN_MAX)?;
        }
        writeln!(out, "\n{}\n", latency_table(&self.latencies.percentiles()))?;
        for (failure, requests) in &self.totals.failures {
            writeln!(out, "{requests} x {failure}")?;
        }
        writeln!(
            out,
            "{} requests in {:.1} s; the repeats of a key were sent within {} ms",
            self.totals.requests,
            self.elapsed.as_secs_f64(),
            self.totals.spread_ms
        )?;
        writeln!(out, "{}", self.verdict().line)
    }

    fn keys_table(&self) -> Table {
        let columns: Vec<Column> =
            COLUMNS.into_iter().filter(|(_, number, is_fixed)| *is_fixed || number(&self.totals) > 0).collect();
        let titles = ["#", "key", "executions"].into_iter().chain(columns.iter().map(|(title, _, _)| *title));
        let numbers =
            |tally: &Tally| -> Vec<String> { columns.iter().map(|(_, number, _)| number(tally).to_string()).collect() };
        let mut table = table(titles);
        for row in self.worst_rows() {
            let executions = row.executions.map_or_else(|| "?".to_owned(), |executions| executions.to_string());
            let first = [row.number.to_string(), row.key.clone(), executions];
            table.add_row(first.into_iter().chain(numbers(&row.tally)));
        }
        let first = [String::new(), "all".to_owned(), self.executions().to_string()];
        table.add_row(first.into_iter().chain(numbers(&self.totals)));
        align_numbers(&mut table, 1);
        table
    }

    /// The rows that are shown, those at fault first.
    fn worst_rows(&self) -> Vec<&Row> {
        let is_innocent =
            |row: &Row| execution(row, &self.scale) == Execution::Once && row.tally.conflicting_replays == 0;
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| is_innocent(row));
        rows.truncate(ROWS_SHOWN_MAX);
        rows
    }
}

fn latency_table(classes: &[(&str, Percentiles)]) -> Table {
    let mut table = table(["latency, ms", "answers", "p50", "p90", "p99", "max"]);
    for (class, Percentiles { answers, p50, p90, p99, max }) in classes {
        let latencies = [p50, p90, p99, max].map(|latency| format!("{latency:.1}"));
        table.add_row([(*class).to_owned(), answers.to_string()].into_iter().chain(latencies));
    }
    align_numbers(&mut table, 0);
    table
}

fn table<'a>(titles: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(titles.into_iter().collect::<Vec<_>>());
    table
}

/// Right, so that digits stand under digits; all columns but the one that names the row hold numbers.
fn align_numbers(table: &mut Table, name_column: usize) {
    for (index, column) in table.column_iter_mut().enumerate() {
        if index != name_column {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
