//! Ratios that matter, and what they have to be.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// A ratio, or a time, and its bound.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) what: &'static str,
    pub(super) measured: f64,
    pub(super) bound: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Reported beside the others.
    Stretch(f64),
}

// === impl Target ===

impl Target {
    /// For programs.
    pub(super) fn json(&self) -> Value {
        let (relation, value) = self.bound.parts();
        json!({
            "what": self.what, "measured": self.measured, "target": value, "relation": relation,
            "is_met": self.bound.is_met(self.measured),
        })
    }

    /// For people.
    pub(super) fn table(targets: &[Self]) -> Table {
        let mut table = table(&["ratio", "measured", "target", ""]);
        for target in targets {
            let (relation, value) = target.bound.parts();
            let verdict = match (target.bound, target.bound.is_met(target.measured)) {
                (_, true) => "met",
                (Bound::Stretch(_), false) => "not met (stretch)",
                (_, false) => "MISSED",
            };
            let number = |number: f64| if number < 100.0 { format!("{number:.2}") } else { format!("{number:.0}") };
            table.add_row([target.what, &number(target.measured), &format!("{relation} {}", number(value)), verdict]);
        }
        table
    }
}

// === impl Bound ===

impl Bound {
    fn parts(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(value) => ("<=", value),
            Self::AtLeast(value) | Self::Stretch(value) => (">=", value),
        }
    }

    pub(super) fn is_met(self, measured: f64) -> bool {
        match self {
            Self::AtMost(value) => measured <= value,
            Self::AtLeast(value) | Self::Stretch(value) => measured >= value,
        }
    }
}

/// A table whose first column is words and whose others are numbers.
pub(super) fn table(title: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(title);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The middle one; of none, not a number.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
}
