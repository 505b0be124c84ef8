//! The parameters of GET.

use std::collections::BTreeMap;

use oncegate_core::{Filter, IdempotencyKey, StateName};

use super::problem::Problem;

type Parameters = BTreeMap<String, String>;

/// Of `/api/records`, and of the page that searches.
pub(in crate::admin) fn filter(parameters: &Parameters) -> Result<Filter, Problem> {
    let mut filter = Filter { rows: 50, ..Filter::default() };
    for (name, value) in parameters {
        match name.as_str() {
            "state" => filter.state = Some(state(value)?),
            "abandoned" => filter.abandoned = flag(name, value)?,
            "key" => filter.key = Some(key(value)?),
            "scope" => filter.scope_part = Some(value.clone()),
            "limit" => filter.rows = limit(value)?,
            _ => return Err(unknown(name, "state, abandoned, key, scope and limit")),
        }
    }
    Ok(filter)
}

/// Of `/api/records/{record}`.
pub(super) fn with_body(parameters: &Parameters) -> Result<bool, Problem> {
    let mut with_body = false;
    for (name, value) in parameters {
        match name.as_str() {
            "body" => with_body = flag(name, value)?,
            _ => return Err(unknown(name, "body")),
        }
    }
    Ok(with_body)
}

/// Of `/api/audit`.
pub(super) fn rows(parameters: &Parameters) -> Result<usize, Problem> {
    let mut rows = 50;
    for (name, value) in parameters {
        match name.as_str() {
            "limit" => rows = limit(value)?,
            _ => return Err(unknown(name, "limit")),
        }
    }
    Ok(rows)
}

/// A state's word.
pub(super) fn state(word: &str) -> Result<StateName, Problem> {
    let states = [StateName::InFlight, StateName::Completed, StateName::Unknown];
    let found = states.into_iter().find(|state| state.as_str() == word);
    let detail = || format!("{word:?} is not a state: in_flight, completed and unknown are");
    found.ok_or_else(|| Problem::field("state", detail()))
}

fn key(text: &str) -> Result<IdempotencyKey, Problem> {
    let key = IdempotencyKey::parse(text.as_bytes()).map_err(|error| Problem::field("key", error.to_string()))?;
    Ok(key.0)
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    value.parse().map_err(|_| Problem::field(name, format!("{name} is {value:?}: write true or false")))
}

fn limit(value: &str) -> Result<usize, Problem> {
    let limit = value.parse().ok().filter(|limit| (1..=Filter::ROWS_MAX).contains(limit));
    limit.ok_or_else(|| Problem::field("limit", format!("limit is {value:?}: write 1 to {}", Filter::ROWS_MAX)))
}

fn unknown(name: &str, known: &str) -> Problem {
    Problem::field(name, format!("there is no parameter {name:?}: there is {known}"))
}
