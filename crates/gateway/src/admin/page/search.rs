//! `/records`: finds records by tenant, key and state.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Query, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use oncegate_core::Record;

use super::{
    frame::{Frame, Place},
    html::Html,
    table,
};
use crate::{
    admin::{
        Admin,
        api::{Problem, query},
    },
    records::{desk, name},
};

type Parameters = BTreeMap<String, String>;

pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
    Query(mut parameters): Query<Parameters>,
) -> Response {
    // What a form sends of a field that was left empty.
    parameters.retain(|_, value| !value.trim().is_empty());
    let (status, found) = match found(&admin, &parameters).await {
        Ok(found) => (StatusCode::OK, found),
        Err(problem) => {
            let said = [("said", Html::text(problem.detail()))];
            (problem.status(), Html::filled("<p class=\"problem\" role=\"alert\">{{said}}</p>", &said))
        }
    };
    let main = [form(&parameters), found].into_iter().collect();
    Frame { admin: &admin, headers: &headers }.page(status, (Place::Records, "Records"), main)
}

async fn found(admin: &Admin, parameters: &Parameters) -> Result<Html, Problem> {
    let (records, rows) = list(admin, parameters).await?;
    let count = match records.len() {
        0 => {
            return Ok(Html::of(
                "<p role=\"status\">No record is such a one: it expired, was deleted, or never was.</p>",
            ));
        }
        1 => "1 record.".to_owned(),
        count if count >= rows => format!("The {count} oldest; there may be more: narrow the search."),
        count => format!("{count} records, the oldest first."),
    };
    let values = [("count", Html::text(count)), ("records", table::of_records(&records, desk::now()))];
    Ok(Html::filled("<p role=\"status\">{{count}}</p>\n{{records}}", &values))
}

/// As the API lists them, but that a record may also be named by the first digits of its digest, and how many rows are
/// shown at most.
async fn list(admin: &Admin, parameters: &Parameters) -> Result<(Vec<Record>, usize), Problem> {
    let mut others = parameters.clone();
    let named = others.remove("key");
    let filter = query::filter(&others)?;
    let rows = filter.rows();
    let Some(named) = named else { return Ok((admin.desk.list(&filter).await?, rows)) };
    let now = desk::now();
    let mut records = name::all(&admin.desk, named.trim(), filter.scope_part.as_deref()).await?;
    records.retain(|record| filter.matches(record, now));
    records.truncate(rows);
    Ok((records, rows))
}

fn form(parameters: &Parameters) -> Html {
    let text = |name: &str| Html::text(parameters.get(name).map(String::as_str).unwrap_or_default());
    let states = [("", "any"), ("in_flight", "in flight"), ("completed", "completed"), ("unknown", "unknown")];
    let chosen = parameters.get("state").map(String::as_str).unwrap_or_default();
    let option = |(state, words): (&'static str, &'static str)| {
        let selected = if state == chosen { " selected" } else { "" };
        let values = [("state", Html::of(state)), ("selected", Html::of(selected)), ("words", Html::of(words))];
        Html::filled("<option value=\"{{state}}\"{{selected}}>{{words}}</option>", &values)
    };
    let is_abandoned = parameters.get("abandoned").is_some_and(|value| value == "true");
    let values = [
        ("scope", text("scope")),
        ("key", text("key")),
        ("states", states.into_iter().map(option).collect()),
        ("abandoned", Html::of(if is_abandoned { " checked" } else { "" })),
    ];
    Html::filled(include_str!("search.html"), &values)
}
