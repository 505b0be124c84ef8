//! Records and the audit as tables for people. Never the body.

use comfy_table::{ContentArrangement, Table, presets};
use oncegate_core::{AuditEntry, Record, State, Suspicion, Timestamp};

/// One line per record.
pub(super) fn of_records(records: &[Record], now: Timestamp) -> String {
    let mut table = plain();
    table.set_header(["record", "state", "fence", "status", "attempt", "created", "operation", "key", "scope"]);
    table.add_rows(records.iter().map(|record| {
        [
            record.id.digest().short(),
            state(record, now),
            record.fence.to_string(),
            status(record),
            record.attempt.to_string(),
            time(record.created_at),
            shown(record.operation.as_str()),
            shown(record.id.key().as_str()),
            scope(record),
        ]
    }));
    format!("{}\n", table.trim_fmt())
}

/// All of one record but its response.
pub(super) fn of_record(record: &Record, now: Timestamp) -> String {
    let mut table = plain();
    let mut line = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    line("record", record.id.digest().to_string());
    line("key", shown(record.id.key().as_str()));
    line("scope", scope(record));
    line("operation", shown(record.operation.as_str()));
    line("state", state(record, now));
    match &record.state {
        State::InFlight { lease_until } => line("lease until", time(*lease_until)),
        State::Completed { completed_at, status } => {
            line("status", status.to_string());
            line("completed", time(*completed_at));
        }
        State::Unknown { since, reason } => {
            line("reason", shown(reason.as_str()));
            line("unknown since", time(*since));
        }
    }
    line("fence", record.fence.to_string());
    line("attempt", record.attempt.to_string());
    line("backend", record.backend.as_str().to_owned());
    line("created", time(record.created_at));
    line("expires", time(record.expires_at));
    format!("{}\n", table.trim_fmt())
}

/// One line per entry.
pub(super) fn of_audit(entries: &[AuditEntry]) -> String {
    let mut table = plain();
    table.set_header(["at", "operator", "verb", "record", "fence", "was", "status", "operation", "reason"]);
    table.add_rows(entries.iter().map(|entry| {
        let force = if entry.note.force { " (force)" } else { "" };
        [
            time(entry.at),
            shown(entry.note.operator()),
            format!("{}{force}", entry.verb.as_str()),
            entry.seen.record.short(),
            entry.seen.fence.to_string(),
            entry.seen.state.as_str().to_owned(),
            entry.status.map_or("-".to_owned(), |status| status.to_string()),
            shown(entry.operation.as_str()),
            shown(entry.note.reason()),
        ]
    }));
    format!("{}\n", table.trim_fmt())
}

/// One line per pair.
pub(super) fn of_suspicions(suspicions: &[Suspicion]) -> String {
    let mut table = plain();
    table.set_header(["record", "earlier", "created", "apart", "scope", "operation"]);
    table.add_rows(suspicions.iter().map(|suspicion| {
        [
            suspicion.record.short(),
            suspicion.earlier.short(),
            time(suspicion.created_at),
            format!("{:.1}s", suspicion.apart().as_secs_f64()),
            if suspicion.is_anonymous { "(anonymous)" } else { "known" }.to_owned(),
            shown(suspicion.operation.as_str()),
        ]
    }));
    format!("{}\n", table.trim_fmt())
}

/// When a record's lease ends; `None` unless it is in flight.
pub(super) fn lease_until(record: &Record) -> Option<String> {
    match record.state {
        State::InFlight { lease_until } => Some(time(lease_until)),
        State::Completed { .. } | State::Unknown { .. } => None,
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The state's word, and whether the record is abandoned.
pub(crate) fn state(record: &Record, now: Timestamp) -> String {
    let abandoned = if record.is_abandoned(now) { " (abandoned)" } else { "" };
    format!("{}{abandoned}", record.state.name().as_str())
}

fn status(record: &Record) -> String {
    match record.state {
        State::Completed { status, .. } => status.to_string(),
        State::InFlight { .. } | State::Unknown { .. } => "-".to_owned(),
    }
}

/// The scope as text; of those who have none a word in its place.
pub(crate) fn scope(record: &Record) -> String {
    let scope = record.id.scope();
    if scope.is_anonymous() { "(anonymous)".to_owned() } else { shown(scope.as_str()) }
}

/// Whole seconds, in UTC.
pub(crate) fn time(moment: Timestamp) -> String {
    let seconds = moment.as_micros().div_euclid(1_000_000);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Text of clients: what would move the cursor or break the line is replaced.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
