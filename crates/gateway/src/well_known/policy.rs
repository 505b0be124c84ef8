//! How each route is guarded, for clients.
//!
//! What only operators should know is left out: headers that an authenticating proxy sets, what kind of backend there
//! is, and what happens when the store is down.

use bytes::Bytes;
use oncegate_core::IdempotencyKey;
use oncegate_tower::{
    Route, Routes,
    problem::TYPE_PREFIX,
    route::{Anonymous, KeySource, Matcher, ScopePart},
};
use serde_json::{Value, json};

use crate::config::matcher_text;

/// The document.
pub(super) fn of(routes: &Routes) -> Bytes {
    let routes: Vec<_> = routes.iter().map(|(matcher, route)| of_route(matcher, route)).collect();
    let document = json!({
        "specification": "draft-ietf-httpapi-idempotency-key-header-07",
        "problems": TYPE_PREFIX,
        "key": {
            "length_max": IdempotencyKey::LENGTH_MAX,
            "characters": "visible ASCII, bare or as a quoted structured-field string",
        },
        "routes": routes,
    });
    Bytes::from(document.to_string())
}

fn of_route(matcher: Option<&Matcher>, route: &Route) -> Value {
    let methods: Vec<_> =
        route.methods.iter().filter(|method| route.guards(method)).map(http::Method::as_str).collect();
    let scope: Vec<_> = route.scope.iter().map(scope_kind).collect();
    json!({
        "name": &*route.name,
        "match": matcher.map(matcher_text),
        "methods": methods,
        "required": route.required,
        "key": key(&route.key),
        "scope": scope,
        "anonymous": matches!(route.anonymous, Anonymous::Share),
        "compared": ["method", "path", "query", "media type", "body"],
        "body_compared_by": route.rules.mode().as_str(),
        "retention_seconds": route.policy.retention.as_secs(),
        "wait_seconds": route.wait.as_secs_f64(),
        "max_request_body_bytes": route.max_request_body,
        "max_replayed_body_bytes": if route.store_body { route.max_stored_body } else { 0 },
    })
}

fn key(source: &KeySource) -> Value {
    match source {
        KeySource::Header(name) => json!({ "in": "header", "name": name.as_str() }),
        KeySource::Body(pointer) => json!({ "in": "body", "pointer": pointer.as_str() }),
    }
}

/// What identifies a caller, without the names of internal headers.
fn scope_kind(part: &ScopePart) -> &'static str {
    match part {
        ScopePart::Credential => "authorization",
        ScopePart::Header(_) => "header",
        ScopePart::Cookie(_) => "cookie",
        ScopePart::Route => "route",
    }
}
