//! The forms of a record: one per verb that is for it.

use std::collections::BTreeMap;

use oncegate_core::{Note, OperatorVerb, Record, State, Timestamp};

use super::{frame::Frame, html::Html};
use crate::admin::api::Problem;

/// What somebody sent that was not done, so that nobody has to type it again.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) verb: OperatorVerb,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) problem: Problem,
}

/// What may be done to a record of this state.
pub(super) fn of(frame: Frame<'_>, record: &Record, draft: Option<&Draft>, now: Timestamp) -> Html {
    let verbs = OperatorVerb::ALL.into_iter().filter(|verb| verb.leaves(record.state.name()));
    verbs.map(|verb| form(frame, (record, verb), draft.filter(|draft| draft.verb == verb), now)).collect()
}

fn form(frame: Frame<'_>, (record, verb): (&Record, OperatorVerb), draft: Option<&Draft>, now: Timestamp) -> Html {
    let (summary, hint, button) = words(verb);
    let special = match verb {
        OperatorVerb::Resolve => response(draft),
        OperatorVerb::Release if has_live_lease(record, now) => Html::of(FORCE),
        OperatorVerb::Release | OperatorVerb::Purge => Html::default(),
    };
    let values = [
        ("open", Html::of(if draft.is_some() { " open" } else { "" })),
        ("verb", Html::of(verb.as_str())),
        ("summary", Html::of(summary)),
        ("hint", Html::of(hint)),
        ("problem", draft.map(problem).unwrap_or_default()),
        ("record", Html::text(record.id.digest())),
        ("seal", frame.seal()),
        ("fence", Html::text(record.fence)),
        ("state", Html::of(record.state.name().as_str())),
        ("special", special),
        ("operator_max", Html::text(Note::OPERATOR_LENGTH_MAX)),
        ("operator", typed(draft, "operator", "")),
        ("operator_marks", marks(draft, "operator")),
        ("reason_max", Html::text(Note::REASON_LENGTH_MAX)),
        ("reason", typed(draft, "reason", "")),
        ("reason_marks", marks(draft, "reason")),
        ("button", Html::of(button)),
    ];
    Html::filled(include_str!("form.html"), &values)
}

fn words(verb: OperatorVerb) -> (&'static str, &'static str, &'static str) {
    match verb {
        OperatorVerb::Resolve => (
            "Resolve: it happened",
            "Repeats get the response that you give, everywhere within 5 s. An execution that still runs cannot \
             replace it.",
            "Resolve",
        ),
        OperatorVerb::Release => (
            "Release: it did not happen",
            "The record is deleted, and the next repeat <b>executes</b>. Be sure that nothing happened, and that \
             nothing can happen any more.",
            "Release",
        ),
        OperatorVerb::Purge => (
            "Purge: the answer is wrong",
            "The record and its response are deleted, and the next repeat <b>executes</b>.",
            "Purge",
        ),
    }
}

/// The response that repeats are to get.
fn response(draft: Option<&Draft>) -> Html {
    let values = [
        ("status", typed(draft, "status", "201")),
        ("status_marks", marks(draft, "status")),
        ("headers", typed(draft, "headers", "Content-Type: application/json")),
        ("headers_marks", marks(draft, "headers")),
        ("body", typed(draft, "body", "")),
        ("body_marks", marks(draft, "body")),
    ];
    Html::filled(include_str!("response.html"), &values)
}

const FORCE: &str = "<p class=\"check\"><label><input type=\"checkbox\" name=\"force\" value=\"true\"> The lease is live: \
     release all the same, though its executor may still be at work and a repeat executes beside it</label></p>\n";

fn has_live_lease(record: &Record, now: Timestamp) -> bool {
    matches!(record.state, State::InFlight { .. }) && !record.is_abandoned(now)
}

fn problem(draft: &Draft) -> Html {
    let (verb, detail) = (Html::of(draft.verb.as_str()), Html::text(draft.problem.detail()));
    let template = "<p class=\"problem\" role=\"alert\" id=\"{{verb}}-problem\">Nothing was changed: {{detail}}.</p>\n";
    Html::filled(template, &[("verb", verb), ("detail", detail)])
}

/// What stands in a field: what was typed before, if anything was.
fn typed(draft: Option<&Draft>, name: &str, first: &'static str) -> Html {
    match draft {
        Some(draft) => Html::text(draft.fields.get(name).map(String::as_str).unwrap_or_default()),
        None => Html::of(first),
    }
}

/// Of the field that is wrong: says so to those who do not see it, and is where the next key goes.
fn marks(draft: Option<&Draft>, name: &str) -> Html {
    let Some(draft) = draft else { return Html::default() };
    let wrong = draft.problem.field_name().map(|field| field.strip_prefix("response.").unwrap_or(field));
    if wrong != Some(name) {
        return Html::default();
    }
    let template = " aria-invalid=\"true\" aria-describedby=\"{{verb}}-problem\" autofocus";
    Html::filled(template, &[("verb", Html::of(draft.verb.as_str()))])
}
