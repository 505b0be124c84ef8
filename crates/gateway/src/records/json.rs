//! Records, responses and the audit as JSON: the same by command and by the admin listener.

use oncegate_core::{AuditEntry, Record, State, StoredResponse, Suspicion, Timestamp};
use serde_json::{Value, json};

/// All of a record but its response. Times are RFC 3339, in UTC, to the microsecond.
pub(crate) fn of_record(record: &Record, now: Timestamp) -> Value {
    let mut object = json!({
        "record": record.id.digest().to_string(),
        "key": record.id.key().as_str(),
        "scope": record.id.scope().as_str(),
        "operation": record.operation.as_str(),
        "state": record.state.name().as_str(),
        "abandoned": record.is_abandoned(now),
        "fence": record.fence.get(),
        "attempt": record.attempt,
        "backend": record.backend.as_str(),
        "on_abandoned": record.on_abandoned.as_str(),
        "created_at": time(record.created_at),
        "expires_at": time(record.expires_at),
    });
    match &record.state {
        State::InFlight { lease_until } => object["lease_until"] = time(*lease_until),
        State::Completed { completed_at, status } => {
            object["completed_at"] = time(*completed_at);
            object["status"] = json!(status);
        }
        State::Unknown { since, reason } => {
            object["unknown_since"] = time(*since);
            object["reason"] = json!(reason.as_str());
        }
    }
    object
}

/// A response, whose body stands in `body` if it is text, else in `body_hex`; `null` if it was not kept.
pub(crate) fn of_response(response: &StoredResponse) -> Value {
    let latin1 = |value: &[u8]| value.iter().map(|&byte| char::from(byte)).collect::<String>();
    let headers: Vec<_> = response.headers.iter().map(|(name, value)| json!([name, latin1(value)])).collect();
    let mut object = json!({ "status": response.status, "headers": headers });
    match response.body.as_deref().map(|body| std::str::from_utf8(body).map_err(|_| body)) {
        None => object["body"] = Value::Null,
        Some(Ok(text)) => object["body"] = json!(text),
        Some(Err(bytes)) => {
            object["body_hex"] = json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
    object
}

/// One entry of the audit.
pub(crate) fn of_entry(entry: &AuditEntry) -> Value {
    json!({
        "at": time(entry.at),
        "operator": entry.note.operator(),
        "verb": entry.verb.as_str(),
        "force": entry.note.force,
        "reason": entry.note.reason(),
        "record": entry.seen.record.to_string(),
        "fence": entry.seen.fence.get(),
        "state": entry.seen.state.as_str(),
        "operation": entry.operation.as_str(),
        "status": entry.status,
    })
}

/// One request under two keys.
pub(crate) fn of_suspicion(suspicion: &Suspicion) -> Value {
    json!({
        "record": suspicion.record.to_string(),
        "earlier": suspicion.earlier.to_string(),
        "operation": suspicion.operation.as_str(),
        "scope": if suspicion.is_anonymous { "anonymous" } else { "known" },
        "created_at": time(suspicion.created_at),
        "earlier_at": time(suspicion.earlier_at),
        "seconds_apart": suspicion.apart().as_secs_f64(),
    })
}

/// RFC 3339, in UTC, to the microsecond.
pub(crate) fn time(moment: Timestamp) -> Value {
    json!(jiff::Timestamp::from_microsecond(moment.as_micros()).unwrap_or(jiff::Timestamp::MAX).to_string())
}
