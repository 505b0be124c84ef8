//! `/api/…`: what `oncegate records` does, for programs and for the admin page. JSON both ways.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use oncegate_core::{Filter, OperatorVerb, Record, RecordPrefix, Seen};
use serde_json::{Value, json};

use super::Admin;
use crate::records::{
    desk::{self, Ruled},
    json,
};

mod order;
mod problem;
mod query;

use self::{order::Order, problem::Problem};

type Answer = Result<Json<Value>, Problem>;
type Parameters = Query<BTreeMap<String, String>>;

// === routes ===

pub(super) fn router(admin: &Arc<Admin>) -> Router<Arc<Admin>> {
    Router::new()
        .route("/api/records", get(list))
        .route("/api/records/{record}", get(show))
        .route("/api/records/{record}/{verb}", post(rule))
        .route("/api/audit", get(audit))
        .route("/api/reload", get(reload))
        .layer(from_fn_with_state(Arc::clone(admin), refuse_other_origins))
}

/// No page of another origin may use the browser of somebody who can reach this listener.
///
/// A token already keeps them out, since browsers do not add it by themselves. Without one, a name that
/// was made to point here ("DNS rebinding") would make any page the same origin, so names other than
/// `localhost` are refused then.
async fn refuse_other_origins(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    match refusal(admin.token.is_none(), request.headers()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn refusal(is_open: bool, headers: &HeaderMap) -> Option<Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_open && !is_address_or_localhost(host) {
        let detail = "call this listener by its IP address or localhost, or set [admin] token";
        return Some(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let origin = headers.get(header::ORIGIN)?;
    let is_same = origin.to_str().is_ok_and(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    (!is_same).then(|| Problem::new(StatusCode::FORBIDDEN, "pages of another origin may not use this listener"))
}

fn is_address_or_localhost(host: &str) -> bool {
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let Some(name) = uri.host() else { return false };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
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

/// Read only: who may change the configuration is who may write its file and send the process a signal.
async fn reload(State(admin): State<Arc<Admin>>) -> Json<Value> {
    let last = admin.last_reload.get().map(|last| {
        let result = if last.faults.is_empty() { "done" } else { "refused" };
        json!({ "at": json::time(last.at), "result": result, "faults": last.faults })
    });
    Json(json!({ "last": last }))
}

async fn one(admin: &Admin, text: &str) -> Result<Record, Problem> {
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
    let order = Order::parse(verb, &body)?;
    let record = one(&admin, &record).await?;
    let state = order.state.unwrap_or(record.state.name());
    let seen = Seen { record: record.id.digest(), fence: order.fence, state };
    match admin.desk.rule(seen, &order.ruling, &order.note).await? {
        Ruled::Done => Ok(Json(json!({ "done": verb.as_str(), "record": seen.record.to_string() }))),
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
pub(super) async fn not_found(method: Method, uri: Uri) -> Response {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {method} {}", uri.path())).into_response()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn is_refused(is_open: bool, host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
        headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
        refusal(is_open, &headers).is_some()
    }

    #[test]
    fn only_pages_of_this_listener_may_use_it() {
        for host in ["127.0.0.1:8081", "[::1]:8081", "localhost:8081", "LOCALHOST"] {
            assert!(!is_refused(true, host, None), "{host}");
        }
        assert!(!is_refused(true, "127.0.0.1:8081", Some("http://127.0.0.1:8081")));
        for origin in ["http://evil.example", "http://127.0.0.1:8080", "null", "http://127.0.0.1:8081.evil.example"] {
            assert!(is_refused(true, "127.0.0.1:8081", Some(origin)), "{origin}");
            assert!(is_refused(false, "127.0.0.1:8081", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_name_that_was_made_to_point_here_is_refused_where_there_is_no_token() {
        for host in ["evil.example:8081", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert!(is_refused(true, host, None), "{host}");
            assert!(!is_refused(false, host, None), "{host}");
        }
    }
}
