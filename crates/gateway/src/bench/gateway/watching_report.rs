//! What watching costs, for people or for programs.

use std::io::{self, Write as _};

use serde_json::{Value, json};

use super::round::{Between, Measured, Watching, WatchingRound};
use crate::bench::target::{Bound, Target, cpus, median, table};

/// How much of throughput metrics and logs as they come may cost.
const COST_MAX: f64 = 0.03;

const ROWS: [Between; 3] = [Between::Passing, Between::Unique, Between::Memory];

/// All turns of all rounds.
#[derive(Debug, Default)]
pub(super) struct WatchingReport(pub(super) Vec<WatchingRound>);

// === impl WatchingReport ===

impl WatchingReport {
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
        let mut rows = table(&["watching", "between", "requests/s", "proxy µs"]);
        for (watching, between) in combinations() {
            let figures = [self.per_second(watching, between), self.micros(watching, between)];
            let [per_second, micros] = figures.map(|figure| format!("{figure:.1}"));
            rows.add_row([watching.name(), between.meaning(), &per_second, &micros]);
        }
        writeln!(out, "{rows}\n\n{}", Target::table(&self.targets()))?;
        for fault in self.faults() {
            writeln!(out, "FAULT: {fault}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let rows = combinations().map(|(watching, between)| {
            json!({
                "watching": watching.name(), "row": between.name(),
                "requests_per_second": self.per_second(watching, between),
                "proxy_cpu_micros_per_request": self.micros(watching, between),
            })
        });
        let targets = self.targets().iter().map(Target::json).collect::<Vec<_>>();
        json!({ "turns": self.0.len(), "cpus": cpus(), "rows": rows.collect::<Vec<_>>(), "targets": targets,
                "faults": self.faults() })
    }

    fn targets(&self) -> Vec<Target> {
        let of_nothing = |watching, between| {
            median(self.0.iter().map(|round| {
                round.row(watching, between).seen.per_second() / round.row(Watching::Nothing, between).seen.per_second()
            }))
        };
        let row = |what, measured, bound| Target { what, measured, bound };
        let (least, reported) = (Bound::AtLeast(1.0 - COST_MAX), Bound::Stretch(1.0 - COST_MAX));
        vec![
            row("passing: requests/s, of watching nothing", of_nothing(Watching::Defaults, Between::Passing), least),
            row("unique keys: the same", of_nothing(Watching::Defaults, Between::Unique), least),
            row("replays from memory: the same", of_nothing(Watching::Defaults, Between::Memory), least),
            row("passing with an access log: requests/s", of_nothing(Watching::Logged, Between::Passing), reported),
            row("unique keys with an access log", of_nothing(Watching::Logged, Between::Unique), reported),
        ]
    }

    fn per_second(&self, watching: Watching, between: Between) -> f64 {
        median(self.0.iter().map(|round| round.row(watching, between).seen.per_second()))
    }

    fn micros(&self, watching: Watching, between: Between) -> f64 {
        median(self.0.iter().map(|round| {
            let row = round.row(watching, between);
            row.seen.share_of(row.proxy_cpu)
        }))
    }

    fn faults(&self) -> Vec<String> {
        let rows = self.0.iter().zip(1..).flat_map(|(round, number)| {
            round.rows.iter().filter_map(move |(watching, between, row)| {
                let fault = row.fault(*between)?;
                Some(format!("turn {number}, watching {}, {}: {fault}", watching.name(), between.meaning()))
            })
        });
        rows.collect()
    }
}

fn combinations() -> impl Iterator<Item = (Watching, Between)> {
    Watching::ALL.into_iter().flat_map(|watching| ROWS.map(|between| (watching, between)))
}

// === impl WatchingRound ===

impl WatchingRound {
    fn row(&self, watching: Watching, between: Between) -> &Measured {
        let row = self.rows.iter().find(|row| (row.0, row.1) == (watching, between));
        &row.expect("a round measures every row").2
    }
}
