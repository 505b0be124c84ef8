//! The report: a table for people, one JSON object for programs, and a page with charts.

mod html;

use std::io;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::json;

use super::{
    order::{self, Break},
    program::{About, Kind, Program},
    storm::Row,
};

// === types ===

/// Everything that was counted.
#[derive(Debug)]
pub(super) struct Report {
    database: String,
    programs: Vec<&'static About>,
    rows: Vec<Row>,
    order: Vec<Break>,
}

// === impl Report ===

impl Report {
    pub(super) fn new(database: String, programs: &[Box<dyn Program>], rows: Vec<Row>) -> Self {
        let about = programs.iter().map(|program| program.about()).collect();
        Self { database, programs: about, order: order::of(&rows), rows }
    }

    /// Whether each row of oncegate's is as promised.
    pub(super) fn keeps_the_promise(&self) -> bool {
        self.rows.iter().filter(|row| row.kind == Kind::Oncegate).all(Row::is_right)
    }

    pub(super) fn print(&self, is_json: bool) -> io::Result<()> {
        crate::print(&if is_json { self.json() } else { self.for_people() })
    }

    /// The page.
    pub(super) fn html(&self) -> String {
        html::page(self)
    }

    fn json(&self) -> String {
        let object = json!({
            "database": self.database,
            "programs": self.programs,
            "rows": self.rows,
            "order": self.order,
            "is_expected_order": order::is_expected(&self.order, &self.rows),
            "keeps_the_promise": self.keeps_the_promise(),
        });
        format!("{object}\n")
    }

    fn for_people(&self) -> String {
        let verdict = if self.keeps_the_promise() {
            "Every row of oncegate: each key paid once, nobody told otherwise."
        } else {
            "✗ A row of oncegate did not keep its promise."
        };
        let (table, broken, order) = (table(&self.rows), self.broken(), self.sentence());
        format!("{table}\n\nWhat broke first, on {}:\n{broken}{order}\n\n{verdict}\n", self.database)
    }

    /// Says whether it is what usually breaks first.
    fn sentence(&self) -> &'static str {
        if order::is_expected(&self.order, &self.rows) {
            "It is the order in which they are expected to break."
        } else {
            "It is not the order in which they are expected to break, which is that of the table: this machine or this \
             moment was another."
        }
    }

    fn broken(&self) -> String {
        let line = |(number, found): (usize, &Break)| {
            let Break { implementation, failure, .. } = found;
            format!("{:>3}. {implementation:<26} {failure:<22} {}\n", number + 1, found.circumstances())
        };
        self.order.iter().enumerate().map(line).collect()
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "program",
        "fault",
        "at once",
        "keys",
        "paid",
        "duplicates",
        "500s",
        "false",
        "stuck",
        "answered",
        "",
    ]);
    for row in rows {
        let sign = match (row.kind, row.is_right()) {
            (_, false) => "✗",
            (Kind::Naive, true) => "",
            (Kind::Oncegate, true) => "✓",
        };
        let number = |number: u64| Cell::new(number).set_alignment(CellAlignment::Right);
        let clients = u64::try_from(row.concurrency).unwrap_or(u64::MAX);
        table.add_row([
            Cell::new(row.implementation),
            Cell::new(row.fault),
            number(clients),
            number(row.keys),
            number(row.executed),
            number(row.duplicates),
            number(row.errors),
            number(row.false_successes),
            number(row.stuck),
            Cell::new(format!("{} %", row.answered * 100 / row.clients.max(1))).set_alignment(CellAlignment::Right),
            Cell::new(sign),
        ]);
    }
    table
}
