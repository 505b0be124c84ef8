//! The routes as a table for people.

use comfy_table::{ContentArrangement, Table, presets};
use oncegate_tower::{Route, Routes, route::Matcher};

use crate::config::{key_source_text, length_text, matcher_text, scope_part_text};

const HEADINGS: [&str; 8] = ["route", "match", "guards", "backend", "lease", "retention", "key", "scope"];

/// One line per route in the order in which they are tried.
pub(crate) fn of(routes: &Routes) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(HEADINGS);
    table.add_rows(routes.iter().map(|(matcher, route)| row(matcher, route)));
    table
}

/// One route as JSON, by the same headings.
pub(crate) fn json(matcher: Option<&Matcher>, route: &Route) -> serde_json::Value {
    let cells = row(matcher, route).into_iter().map(serde_json::Value::from);
    HEADINGS.into_iter().map(str::to_owned).zip(cells).collect()
}

/// The cells of one route, in the order of the headings.
fn row(matcher: Option<&Matcher>, route: &Route) -> [String; 8] {
    let guarded = route.methods.iter().filter(|method| is_guarded(matcher, route, method));
    let guarded: Vec<_> = guarded.map(http::Method::as_str).collect();
    let scope: Vec<_> = route.scope.iter().map(scope_part_text).collect();
    [
        route.name.to_string(),
        matcher.map_or("everything else".to_owned(), matcher_text),
        if guarded.is_empty() { "nothing".to_owned() } else { guarded.join(" ") },
        route.policy.backend.as_str().to_owned(),
        length_text(route.policy.lease),
        length_text(route.policy.retention),
        key_source_text(&route.key),
        scope.join(" "),
    ]
}

fn is_guarded(matcher: Option<&Matcher>, route: &Route, method: &http::Method) -> bool {
    let matched = matcher.and_then(|matcher| matcher.method.as_ref());
    route.guards(method) && matched.is_none_or(|matched| matched == method)
}
