//! A page that opens offline: everything it needs is in it.

use std::fmt::Write as _;

use super::Report;
use crate::lab::{
    order::Break,
    program::{About, Kind},
    shop::Fault,
    storm::Row,
};

/// Width and height of one chart, in its own units.
const CHART: (f64, f64) = (320.0, 120.0);

/// The largest number of payments for one key that a chart shows; bars are logarithmic.
const PAYMENTS_MAX: f64 = 300.0;

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let charts: String = report.programs.iter().map(|about| chart(about, &report.rows)).collect();
    include_str!("page.html")
        .replace("{{database}}", &escaped(&report.database))
        .replace("{{order}}", &broken(&report.order))
        .replace("{{sentence}}", report.sentence())
        .replace("{{charts}}", &charts)
        .replace("{{rows}}", &table(&report.rows))
}

/// What broke first, as a list.
fn broken(order: &[Break]) -> String {
    order.iter().fold(String::new(), |mut list, found| {
        let (name, failure, storm) = (escaped(found.implementation), found.failure, found.circumstances());
        write!(list, "<li><b>{name}</b> {failure} <span>{storm}</span></li>").expect("into a string");
        list
    })
}

/// One program: a bar for each of its rows, as high as it paid for each key.
fn chart(program: &About, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.implementation == program.implementation).collect();
    let width = CHART.0 / number(rows.len().max(1));
    let bars: String = rows.iter().enumerate().map(|(index, row)| bar(row, width * number(index), width)).collect();
    let class = match program.kind {
        Kind::Naive => "naive",
        Kind::Oncegate => "oncegate",
    };
    let (height, foot) = (CHART.1, CHART.1 + 34.0);
    format!(
        "<figure class=\"{class}\"><figcaption>{}<small>{}</small></figcaption><svg viewBox=\"0 -14 {} {foot}\" role=\"img\" \
         aria-label=\"payments for each key\"><line x1=\"0\" x2=\"{}\" y1=\"{height}\" y2=\"{height}\"/>{bars}</svg></figure>",
        escaped(program.implementation),
        escaped(program.about),
        CHART.0,
        CHART.0,
    )
}

fn bar(row: &Row, x: f64, width: f64) -> String {
    let payments = (row.executed + row.duplicates) as f64 / (row.keys.max(1)) as f64;
    // One payment is a short bar, none is no bar, and 300 fill the chart.
    let height = (payments + 1.0).ln() / (PAYMENTS_MAX + 1.0).ln() * CHART.1;
    let class = verdict(row);
    let (middle, top) = (x + width / 2.0, CHART.1 - height);
    let fault = match row.fault {
        Fault::None => row.concurrency.to_string(),
        Fault::CrashBeforeEffect => "crash".to_owned(),
        Fault::CrashAfterEffect => "crash′".to_owned(),
        Fault::Pause => "pause".to_owned(),
        Fault::CacheRestart => "restart".to_owned(),
    };
    format!(
        "<g class=\"{class}\"><title>{}, {} at once: {} keys, {} payments, {} times 500, {} false, {} stuck</title>\
         <rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>\
         <text x=\"{middle:.1}\" y=\"{:.1}\">{payments:.1}</text><text x=\"{middle:.1}\" y=\"{:.1}\">{fault}</text></g>",
        row.fault,
        row.concurrency,
        row.keys,
        row.executed + row.duplicates,
        row.errors,
        row.false_successes,
        row.stuck,
        x + 2.0,
        width - 4.0,
        top - 3.0,
        CHART.1 + 12.0,
    )
}

fn table(rows: &[Row]) -> String {
    rows.iter().fold(String::new(), |mut table, row| {
        write!(
            table,
            "<tr class=\"{}\"><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{} %</tr>",
            verdict(row),
            escaped(row.implementation),
            row.fault,
            row.concurrency,
            row.keys,
            row.executed,
            row.duplicates,
            row.errors,
            row.false_successes,
            row.stuck,
            row.answered * 100 / row.clients.max(1),
        )
        .expect("into a string");
        table
    })
}

/// The class of what is drawn of a row.
fn verdict(row: &Row) -> &'static str {
    if row.is_right() { "good" } else { "bad" }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
