//! How one line looks.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Map, Value, json};

use super::{Format, Seen};
use crate::records::table;

/// Where a client left before its answer, there is no outcome.
const LEFT: &str = "left";

/// Adds the line of one request. Never its body, its query or its credentials; its key and scope only where `full_keys`
/// says so.
pub(super) fn write(text: &mut String, seen: &Seen, format: Format, full_keys: bool) {
    let fields = fields(seen, full_keys);
    match format {
        Format::Json => writeln!(text, "{}", Value::Object(fields)),
        Format::Text => write_plain(text, &fields),
    }
    .expect("writing to a string cannot fail");
}

/// What is not known is left out.
fn fields(seen: &Seen, full_keys: bool) -> Map<String, Value> {
    let entries = seen.account.entries();
    let seconds = |length: Duration| json!(length.as_secs_f64());
    let (outcome, status) = seen.answer.map_or((LEFT, None), |(outcome, status)| (outcome.as_str(), Some(status)));
    let (key, scope) = match &entries.record {
        Some(record) if full_keys => (Some(json!(record.key().as_str())), Some(json!(record.scope().as_str()))),
        Some(_) | None => (None, None),
    };
    let fields = [
        ("at", Some(crate::records::json::time(seen.at))),
        ("method", Some(json!(seen.method.as_str()))),
        ("path", Some(json!(seen.target.path()))),
        ("status", status.map(|status| json!(status))),
        ("outcome", Some(json!(outcome))),
        ("route", entries.route.map(|route| json!(&*route))),
        ("record", entries.record.as_ref().map(|record| json!(record.digest().short()))),
        ("attempt", entries.attempt.map(|attempt| json!(attempt))),
        ("seconds", Some(seconds(seen.duration))),
        ("claim_seconds", entries.claim.map(seconds)),
        ("upstream_seconds", entries.upstream.map(seconds)),
        ("trace", seen.trace.map(|trace| json!(trace.as_str()))),
        ("key", key),
        ("scope", scope),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The first five without their names.
fn write_plain(text: &mut String, fields: &Map<String, Value>) -> std::fmt::Result {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), plain);
    for name in ["at", "method", "path", "status", "outcome"] {
        write!(text, "{} ", fields.get(name).map_or_else(|| "-".to_owned(), shown))?;
    }
    for name in ["route", "record", "attempt", "seconds", "claim_seconds", "upstream_seconds", "trace", "key", "scope"]
    {
        if let Some(value) = fields.get(name) {
            write!(text, "{name}={} ", shown(value))?;
        }
    }
    text.pop();
    text.push('\n');
    Ok(())
}

/// Fields end at a space, and what would move the cursor or break the line is replaced: a target may hold raw UTF-8.
fn plain(text: &str) -> String {
    table::shown(text).replace(' ', "%20")
}
