//! `/records/{record}`: a record's life, and what may be done to it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, Query, State as Shared},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use oncegate_core::{AuditEntry, OperatorVerb, Record, RecordDigest, State, StoredResponse, Timestamp};

use super::{
    facts,
    forms::{self, Draft},
    frame::{Frame, Place},
    html::Html,
    table,
};
use crate::{
    admin::{
        Admin,
        api::{self, Problem},
    },
    records::desk,
};

// === types ===

/// What the page says besides what stands in the record.
#[derive(Debug)]
pub(super) enum Said {
    Nothing,
    Done(OperatorVerb),
    Refused(Draft),
}

/// A record with what belongs to it.
struct Found {
    record: Record,
    response: Option<StoredResponse>,
    audit: Vec<AuditEntry>,
}

// === the page ===

pub(super) async fn page(
    Shared(admin): Shared<Arc<Admin>>,
    Path(record): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let done = query.get("done").and_then(|verb| OperatorVerb::parse(verb));
    show(Frame { admin: &admin, headers: &headers }, &record, &done.map_or(Said::Nothing, Said::Done)).await
}

pub(super) async fn show(frame: Frame<'_>, name: &str, said: &Said) -> Response {
    let found = find(frame.admin, name).await;
    let (mut status, short, main) = match &found {
        Ok(found) => (StatusCode::OK, found.record.id.digest().short(), present(frame, found, said)),
        Err(problem) => {
            (problem.status(), name.chars().take(8).collect(), absent(frame.admin, name, problem, said).await)
        }
    };
    match said {
        Said::Refused(draft) => status = draft.problem.status(),
        // It is gone because that was wanted.
        Said::Done(_) if status == StatusCode::NOT_FOUND => status = StatusCode::OK,
        Said::Done(_) | Said::Nothing => {}
    }
    frame.page(status, (Place::Records, &format!("Record {short}")), main)
}

async fn find(admin: &Admin, name: &str) -> Result<Found, Problem> {
    let digest = api::one(admin, name).await?.id.digest();
    let found = admin.desk.get(digest).await?;
    let (record, response) = found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "the record has just gone"))?;
    Ok(Found { record, response, audit: audit_of(admin, digest).await? })
}

/// What operators did to it, as far back as the audit is read.
async fn audit_of(admin: &Admin, record: RecordDigest) -> Result<Vec<AuditEntry>, Problem> {
    let mut entries = admin.desk.audit(0).await?;
    entries.retain(|entry| entry.seen.record == record);
    Ok(entries)
}

fn present(frame: Frame<'_>, found: &Found, said: &Said) -> Html {
    let (record, now) = (&found.record, desk::now());
    let draft = match said {
        Said::Refused(draft) => Some(draft),
        Said::Nothing | Said::Done(_) => None,
    };
    let forms = forms::of(frame, record, draft, now);
    // A verb that is not for the record as it is now has no form to say so.
    let refused = draft.filter(|draft| !draft.verb.leaves(record.state.name()));
    let values = [
        ("short", Html::text(record.id.digest().short())),
        ("state", facts::state(record, now)),
        ("said", told(said, refused)),
        ("facts", facts_of(record)),
        ("life", life(record, now)),
        ("response", found.response.as_ref().map(|response| answer(frame.admin, response)).unwrap_or_default()),
        ("forms", forms),
        ("audit", history(&found.audit, now)),
    ];
    Html::filled(include_str!("record.html"), &values)
}

async fn absent(admin: &Admin, name: &str, problem: &Problem, said: &Said) -> Html {
    let audit = match RecordDigest::parse(name) {
        Some(digest) => audit_of(admin, digest).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let refused = match said {
        Said::Refused(draft) => Some(draft),
        Said::Nothing | Said::Done(_) => None,
    };
    let values = [
        ("said", told(said, refused)),
        ("detail", Html::text(problem.detail())),
        ("audit", history(&audit, desk::now())),
    ];
    Html::filled("<h1>No such record</h1>\n{{said}}<p class=\"hint\">{{detail}}.</p>\n{{audit}}", &values)
}

// === its parts ===

/// What became of what was sent.
fn told(said: &Said, refused: Option<&Draft>) -> Html {
    if let Said::Done(verb) = said {
        return Html::of(match verb {
            OperatorVerb::Resolve => {
                "<p class=\"done\" role=\"status\">Resolved: repeats get your response, everywhere within 5 s.</p>\n"
            }
            OperatorVerb::Release => {
                "<p class=\"done\" role=\"status\">Released: a repeat executes, everywhere within 5 s.</p>\n"
            }
            OperatorVerb::Purge => {
                "<p class=\"done\" role=\"status\">Purged: a repeat executes, everywhere within 5 s.</p>\n"
            }
        });
    }
    let Some(draft) = refused else { return Html::default() };
    let detail = [("detail", Html::text(draft.problem.detail()))];
    Html::filled("<p class=\"problem\" role=\"alert\">Nothing was changed: {{detail}}.</p>\n", &detail)
}

fn facts_of(record: &Record) -> Html {
    let text = |text: String| Html::text(text);
    let rows = [
        ("operation", facts::code(record.operation.as_str())),
        ("key", facts::code(record.id.key().as_str())),
        ("scope", facts::scope(record)),
        ("record", facts::code(&record.id.digest().to_string())),
        ("fence", Html::text(record.fence)),
        ("attempt", Html::text(record.attempt)),
        ("backend", text(format!("{}, when abandoned: {}", record.backend.as_str(), record.on_abandoned.as_str()))),
        ("lease", text(facts::length(record.lease))),
        ("retention", text(facts::length(record.retention))),
    ];
    let row = |(name, value)| {
        Html::filled("<div><dt>{{name}}</dt><dd>{{value}}</dd></div>\n", &[("name", Html::of(name)), ("value", value)])
    };
    rows.into_iter().map(row).collect()
}

/// What happened to it and what will, in the order of time.
fn life(record: &Record, now: Timestamp) -> Html {
    let mut steps = vec![(Some(record.created_at), Html::of("first claimed"))];
    if record.attempt > 1 {
        let words = format!("taken over since: attempt {}, under fence {}", record.attempt, record.fence);
        steps.push((None, Html::text(words)));
    }
    steps.push(match &record.state {
        State::InFlight { lease_until } if record.is_abandoned(now) => {
            (Some(*lease_until), Html::of("the lease ended, and nothing was completed"))
        }
        State::InFlight { lease_until } => (Some(*lease_until), Html::of("the lease ends, unless it is extended")),
        State::Completed { completed_at, status } => {
            (Some(*completed_at), Html::text(format!("completed, with status {status}")))
        }
        State::Unknown { since, reason } => {
            let reason = [("reason", facts::code(reason.as_str()))];
            (Some(*since), Html::filled("unknown: {{reason}}", &reason))
        }
    });
    steps.push((Some(record.expires_at), Html::of("the record expires, and the key is new")));
    let step = |(at, words): (Option<Timestamp>, Html)| {
        let at = at.map(|at| facts::moment(at, now)).unwrap_or_default();
        Html::filled("<li>{{at}} {{words}}</li>\n", &[("at", at), ("words", words)])
    };
    steps.into_iter().map(step).collect()
}

fn answer(admin: &Admin, response: &StoredResponse) -> Html {
    let kept = match &response.body {
        Some(body) => facts::bytes(body.len()),
        None => "no body kept".to_owned(),
    };
    let headers = match response.headers.len() {
        1 => "1 header".to_owned(),
        count => format!("{count} headers"),
    };
    let size = format!("Status {}, {headers}, {kept}.", response.status);
    let content = match admin.show_bodies {
        true => content(response),
        false => Html::of(
            "<p class=\"hint\">What stands in it is shown where <code>[admin] show_bodies</code> is true.</p>\n",
        ),
    };
    let values = [("size", Html::text(size)), ("content", content)];
    Html::filled(
        "<section aria-labelledby=\"response\">\n<h2 id=\"response\">Response</h2>\n<p>{{size}}</p>\n{{content}}</section>\n",
        &values,
    )
}

fn content(response: &StoredResponse) -> Html {
    let line = |(name, value): &(String, bytes::Bytes)| format!("{name}: {}\n", String::from_utf8_lossy(value));
    let headers: String = response.headers.iter().map(line).collect();
    let body = match response.body.as_deref().map(std::str::from_utf8) {
        Some(Ok(text)) => text,
        Some(Err(_)) => "(the body is no text)",
        None => "(the body was not kept)",
    };
    let values = [("headers", Html::text(headers)), ("body", Html::text(body))];
    Html::filled("<pre tabindex=\"0\" aria-label=\"Headers and body\">{{headers}}\n{{body}}</pre>\n", &values)
}

fn history(entries: &[AuditEntry], now: Timestamp) -> Html {
    if entries.is_empty() {
        return Html::default();
    }
    let entries = [("entries", table::of_audit(entries, now))];
    Html::filled(
        "<section aria-labelledby=\"audit\">\n<h2 id=\"audit\">What operators did</h2>\n{{entries}}</section>\n",
        &entries,
    )
}
