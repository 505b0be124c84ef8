//! `/api/…`: what `oncegate records` does, for programs and for the admin page. JSON both ways.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use oncegate_core::{Filter, OperatorVerb, Record, RecordDigest, RecordPrefix, Seen};
use serde_json::{Value, json};

use super::Admin;
use crate::records::{
    desk::{self, Ruled},
    json,
};

mod order;
mod problem;
pub(super) mod query;

pub(super) use self::{order::Order, problem::Problem};

type Answer = Result<Json<Value>, Problem>;
type Parameters = Query<BTreeMap<String, String>>;

// === routes ===

pub(super) fn router() -> Router<Arc<Admin>> {
    Router::new()
        .route("/api/records", get(list))
        .route("/api/records/{record}", get(show))
        .route("/api/records/{record}/{verb}", post(rule))
        .route("/api/audit", get(audit))
        .route("/api/history", get(history))
        .route("/api/suspected", get(suspected))
        .route("/api/reload", get(reload))
        .route("/api/{*path}", any(not_found))
}

// === reading ===

async fn list(State(admin): State<Arc<Admin>>, Query(parameters): Parameters) -> Answer {
    let filter = query::filter(&parameters)?;
    let (records, now) = (admin.desk.list(&filter).await?, desk::now());
    let records: Vec<_> = records.iter().map(|record| json::of_record(record, now)).collect();
    Ok(Json(json!({ "records": records })))
}

async fn show(State(admin): State<Arc<Admin>>, Path(record): Path<String>, Query(parameters): Parameters) -> Answer {
    let with_body = query::with_body(&parameters)?;
    if with_body && !admin.show_bodies {
        return Err(Problem::new(StatusCode::FORBIDDEN, "responses are shown where [admin] show_bodies is true"));
    }
    let digest = one(&admin, &record).await?.id.digest();
    let Some((record, response)) = admin.desk.get(digest).await? else { return Err(absent(&record)) };
    let mut object = json::of_record(&record, desk::now());
    if let Some(response) = response.filter(|_| with_body) {
        object["response"] = json::of_response(&response);
    }
    Ok(Json(object))
}

async fn audit(State(admin): State<Arc<Admin>>, Query(parameters): Parameters) -> Answer {
    let entries = admin.desk.audit(query::rows(&parameters)?).await?;
    let entries: Vec<_> = entries.iter().map(json::of_entry).collect();
    Ok(Json(json!({ "audit": entries })))
}

async fn suspected(State(admin): State<Arc<Admin>>, Query(parameters): Parameters) -> Answer {
    let suspected = admin.desk.suspected(query::rows(&parameters)?).await?;
    let suspected: Vec<_> = suspected.iter().map(json::of_suspicion).collect();
    Ok(Json(json!({ "suspected": suspected })))
}

/// Read only: who may change the configuration is who may write its file and send the process a signal.
async fn reload(State(admin): State<Arc<Admin>>) -> Json<Value> {
    let last = admin.last_reload.get().map(|last| {
        let result = if last.faults.is_empty() { "done" } else { "refused" };
        json!({ "at": json::time(last.at), "result": result, "faults": last.faults })
    });
    Json(json!({ "last": last }))
}

/// What the charts of the page are drawn from.
async fn history(State(admin): State<Arc<Admin>>) -> Json<Value> {
    let mut object = admin.history.series().json();
    object["in_flight_by_age"] = json!(admin.ages.of(&admin.desk).await.map(|ages| ages.json()));
    Json(object)
}

/// The record whose digest begins so.
pub(super) async fn one(admin: &Admin, text: &str) -> Result<Record, Problem> {
    let Some(prefix) = RecordPrefix::parse(text) else {
        let min = RecordPrefix::DIGITS_MIN;
        let detail = format!("{text:?} is not a record: write its UUID, or {min} or more of its first digits");
        return Err(Problem::field("record", detail));
    };
    let filter = Filter { prefix: Some(prefix), rows: 2, ..Filter::default() };
    let mut found = admin.desk.list(&filter).await?;
    match found.len() {
        0 => Err(absent(text)),
        1 => Ok(found.remove(0)),
        _ => Err(Problem::field("record", format!("several records begin with {text:?}: write more digits"))),
    }
}

fn absent(text: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("no record is named {text:?}: it expired, or was deleted"))
}

// === ruling ===

async fn rule(
    State(admin): State<Arc<Admin>>,
    Path((record, verb)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let Some(verb) = OperatorVerb::parse(&verb) else {
        let detail = format!("{verb:?} is not a verb: resolve, release and purge are");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    if !is_json(&headers) {
        // A form of another page can send other types without being asked, but not this one.
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json"));
    }
    let record = carry_out(&admin, &record, Order::parse(verb, &body)?).await?;
    Ok(Json(json!({ "done": verb.as_str(), "record": record.to_string() })))
}

/// Does what was ordered if the record still is what it was when the order was given.
pub(super) async fn carry_out(admin: &Admin, record: &str, order: Order) -> Result<RecordDigest, Problem> {
    let record = one(admin, record).await?;
    let state = order.state.unwrap_or(record.state.name());
    let seen = Seen { record: record.id.digest(), fence: order.fence, state };
    match admin.desk.rule(seen, &order.ruling, &order.note).await? {
        Ruled::Done => Ok(seen.record),
        Ruled::Refused(refusal) => {
            let now = refusal.now.as_ref().map(|record| json::of_record(record, desk::now()));
            Err(Problem::new(StatusCode::CONFLICT, refusal.to_string()).with("now", json!(now)))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

/// What does not exist below `/api` is a problem document too.
async fn not_found(method: Method, uri: Uri) -> Response {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {method} {}", uri.path())).into_response()
}
