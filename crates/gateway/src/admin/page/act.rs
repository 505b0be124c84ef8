//! What the forms of a record send: resolve, release, purge.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Form,
    extract::{Path, State},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, StatusCode};
use oncegate_core::{OperatorVerb, RecordDigest};
use serde_json::{Map, Value, json};

use super::{
    forms::Draft,
    frame::Frame,
    record::{self, Said},
};
use crate::{
    admin::{
        Admin,
        api::{self, Order, Problem},
    },
    records::desk,
};

pub(super) type Fields = BTreeMap<String, String>;

pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    Path((record, verb)): Path<(String, String)>,
    headers: HeaderMap,
    Form(fields): Form<Fields>,
) -> Response {
    let Some(verb) = OperatorVerb::parse(&verb) else { return StatusCode::NOT_FOUND.into_response() };
    match act(&admin, &headers, (&record, verb), &fields).await {
        // To the page as GET, so that loading it again sends nothing again.
        Ok(record) => Redirect::to(&format!("/records/{record}?done={}", verb.as_str())).into_response(),
        Err(problem) => {
            let said = Said::Refused(Draft { verb, fields, problem });
            record::show(Frame { admin: &admin, headers: &headers }, &record, &said).await
        }
    }
}

async fn act(
    admin: &Admin,
    headers: &HeaderMap,
    (record, verb): (&str, OperatorVerb),
    fields: &Fields,
) -> Result<RecordDigest, Problem> {
    if !admin.access.is_own_form(headers, fields.get("seal").map(String::as_str), desk::now()) {
        let detail = "this form is not of this page as it is now: look at the record, then send the form again";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let order = Order::read(verb, members(verb, fields))?;
    api::carry_out(admin, record, order).await
}

/// As a program would have written it, so that both are read, and refused, in one place.
fn members(verb: OperatorVerb, fields: &Fields) -> Map<String, Value> {
    let text = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let mut members = Map::from_iter([
        ("fence".to_owned(), number(text("fence"))),
        ("state".to_owned(), json!(text("state"))),
        ("operator".to_owned(), json!(text("operator"))),
        ("reason".to_owned(), json!(text("reason"))),
    ]);
    match verb {
        OperatorVerb::Resolve => {
            let headers: Vec<_> = text("headers").lines().filter(|line| !line.trim().is_empty()).map(pair).collect();
            // Browsers send each line break as CRLF, whatever was typed.
            let body = text("body").replace("\r\n", "\n");
            let response = json!({ "status": number(text("status")), "headers": headers, "body": body });
            members.insert("response".to_owned(), response);
        }
        OperatorVerb::Release => {
            members.insert("force".to_owned(), json!(fields.contains_key("force")));
        }
        OperatorVerb::Purge => {}
    }
    members
}

/// What is no number is left to be refused as text.
fn number(text: &str) -> Value {
    text.trim().parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

fn pair(line: &str) -> [&str; 2] {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    [name.trim(), value.trim()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_is_read_as_a_program_would_have_written_it() {
        let sent = fields(&[
            ("fence", "3"),
            ("state", "unknown"),
            ("operator", "ada"),
            ("reason", "found it"),
            ("status", " 201 "),
            ("headers", "Content-Type: text/plain\r\n\r\nX-A:b:c"),
            ("body", "one\r\ntwo"),
        ]);
        let expected = json!({
            "fence": 3, "state": "unknown", "operator": "ada", "reason": "found it",
            "response": { "status": 201, "headers": [["Content-Type", "text/plain"], ["X-A", "b:c"]], "body": "one\ntwo" }
        });
        assert_eq!(Value::Object(members(OperatorVerb::Resolve, &sent)), expected);
    }

    #[test]
    fn what_a_form_lacks_is_refused_by_name() {
        let refused = |verb, pairs: &[(&str, &str)]| {
            let problem = Order::read(verb, members(verb, &fields(pairs))).unwrap_err();
            problem.field_name().unwrap().to_owned()
        };
        let seen = [("fence", "3"), ("state", "unknown"), ("operator", "ada"), ("reason", "why")];
        assert_eq!(refused(OperatorVerb::Release, &seen[..3]), "reason");
        assert_eq!(refused(OperatorVerb::Release, &seen[1..]), "fence");
        assert_eq!(refused(OperatorVerb::Release, &[seen[0], seen[1], seen[3]]), "operator");
        assert_eq!(refused(OperatorVerb::Resolve, &seen), "status");
        assert!(Order::read(OperatorVerb::Release, members(OperatorVerb::Release, &fields(&seen))).is_ok());
    }
}
