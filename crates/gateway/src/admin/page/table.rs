//! Tables: one line per record, which a narrow screen shows as a card.

use oncegate_core::{AuditEntry, Record, State, Suspicion, Timestamp};

use super::{facts, html::Html};

/// A column: its heading, and what stands in it.
type Column<T> = (&'static str, fn(&T, Timestamp) -> Html);

/// Records of any state.
pub(super) fn of_records(records: &[Record], now: Timestamp) -> Html {
    let columns: [Column<Record>; 8] = [
        ("record", |record, _| facts::link(record.id.digest())),
        ("state", facts::state),
        ("operation", |record, _| facts::code(record.operation.as_str())),
        ("key", |record, _| facts::code(record.id.key().as_str())),
        ("scope", |record, _| facts::scope(record)),
        ("created", |record, now| facts::moment(record.created_at, now)),
        ("status", status),
        ("attempt", |record, _| Html::text(record.attempt)),
    ];
    table(&columns, records, now)
}

/// Records that wait for an operator.
pub(super) fn of_unknown(records: &[Record], now: Timestamp) -> Html {
    let columns: [Column<Record>; 7] = [
        ("record", |record, _| facts::link(record.id.digest())),
        ("operation", |record, _| facts::code(record.operation.as_str())),
        ("key", |record, _| facts::code(record.id.key().as_str())),
        ("scope", |record, _| facts::scope(record)),
        ("learnt", |record, _| reason(record)),
        ("since", |record, now| since(record, now)),
        ("key is new", |record, now| facts::moment(record.expires_at, now)),
    ];
    table(&columns, records, now)
}

/// Records whose executor died.
pub(super) fn of_abandoned(records: &[Record], now: Timestamp) -> Html {
    let columns: [Column<Record>; 7] = [
        ("record", |record, _| facts::link(record.id.digest())),
        ("operation", |record, _| facts::code(record.operation.as_str())),
        ("key", |record, _| facts::code(record.id.key().as_str())),
        ("scope", |record, _| facts::scope(record)),
        ("lease ended", |record, now| since(record, now)),
        ("attempt", |record, _| Html::text(record.attempt)),
        ("then", |record, _| Html::text(record.on_abandoned.as_str())),
    ];
    table(&columns, records, now)
}

/// Requests under two keys.
pub(super) fn of_suspicions(suspicions: &[Suspicion], now: Timestamp) -> Html {
    let columns: [Column<Suspicion>; 6] = [
        ("record", |suspicion, _| facts::link(suspicion.record)),
        ("operation", |suspicion, _| facts::code(suspicion.operation.as_str())),
        ("claimed", |suspicion, now| facts::moment(suspicion.created_at, now)),
        ("before it", |suspicion, _| facts::link(suspicion.earlier)),
        ("apart", |suspicion, _| Html::text(facts::length(suspicion.apart()))),
        ("caller", |suspicion, _| Html::of(if suspicion.is_anonymous { "anonymous: perhaps two" } else { "the same" })),
    ];
    table(&columns, suspicions, now)
}

/// What operators did.
pub(super) fn of_audit(entries: &[AuditEntry], now: Timestamp) -> Html {
    let columns: [Column<AuditEntry>; 8] = [
        ("at", |entry, now| facts::moment(entry.at, now)),
        ("operator", |entry, _| Html::text(entry.note.operator())),
        ("verb", |entry, _| {
            let force = if entry.note.force { " (force)" } else { "" };
            Html::text(format!("{}{force}", entry.verb.as_str()))
        }),
        ("record", |entry, _| facts::link(entry.seen.record)),
        ("was", |entry, _| Html::text(format!("{}, fence {}", entry.seen.state.as_str(), entry.seen.fence))),
        ("status", |entry, _| entry.status.map_or(Html::of("–"), Html::text)),
        ("operation", |entry, _| facts::code(entry.operation.as_str())),
        ("reason", |entry, _| Html::text(entry.note.reason())),
    ];
    table(&columns, entries, now)
}

fn table<T>(columns: &[Column<T>], rows: &[T], now: Timestamp) -> Html {
    let heading = |(name, _): &Column<T>| Html::filled("<th scope=\"col\">{{name}}</th>", &[("name", Html::of(name))]);
    let cell = |(name, show): &Column<T>, row: &T| {
        let values = [("name", Html::of(name)), ("shown", show(row, now))];
        Html::filled("<td data-name=\"{{name}}\">{{shown}}</td>", &values)
    };
    let row = |row: &T| {
        let cells = columns.iter().map(|column| cell(column, row)).collect();
        Html::filled("<tr>{{cells}}</tr>\n", &[("cells", cells)])
    };
    let values = [("headings", columns.iter().map(heading).collect()), ("rows", rows.iter().map(row).collect())];
    Html::filled("<table>\n<thead><tr>{{headings}}</tr></thead>\n<tbody>\n{{rows}}</tbody>\n</table>\n", &values)
}

fn status(record: &Record, _: Timestamp) -> Html {
    match record.state {
        State::Completed { status, .. } => Html::text(status),
        State::InFlight { .. } | State::Unknown { .. } => Html::of("–"),
    }
}

fn reason(record: &Record) -> Html {
    match &record.state {
        State::Unknown { reason, .. } => facts::code(reason.as_str()),
        State::InFlight { .. } | State::Completed { .. } => Html::of("–"),
    }
}

fn since(record: &Record, now: Timestamp) -> Html {
    match record.state {
        State::Unknown { since, .. } => facts::moment(since, now),
        State::InFlight { lease_until } => facts::moment(lease_until, now),
        State::Completed { completed_at, .. } => facts::moment(completed_at, now),
    }
}
