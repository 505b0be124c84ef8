//! What other routes do to records that live already.

use http::{Method, Uri};
use oncegate_tower::{
    Route, Routes,
    route::{KeySource, Matcher, ScopePart},
};

// === types ===

/// Something that a change of routes does to records made before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveRecords<'a> {
    /// The route that requests have now.
    pub(super) route: &'a str,
    /// The route that they had, under which their records were made.
    pub(super) before: &'a str,
    pub(super) effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Requests with this method are not guarded any more.
    Unguarded(Method),
    /// Their records are not found any more.
    NewKeys,
    /// Their records are compared under rules that new records are not made with.
    EarlierRules,
}

// === impl LiveRecords ===

impl<'a> LiveRecords<'a> {
    /// Each effect once. Found by asking both lists of routes about one request for each route and method:
    /// a request can come to another route because one was added, removed, moved or renamed.
    pub(super) fn between(before: &'a Routes, after: &'a Routes) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for (method, uri) in samples(before).chain(samples(after)) {
            let (old, new) = (before.find(&method, &uri), after.find(&method, &uri));
            for effect in effects(&method, old, new) {
                let each = Self { route: &new.name, before: &old.name, effect };
                if !found.contains(&each) {
                    found.push(each);
                }
            }
        }
        found
    }
}

fn effects(method: &Method, old: &Route, new: &Route) -> Vec<Effect> {
    if !old.guards(method) {
        return Vec::new();
    }
    if !new.guards(method) {
        return vec![Effect::Unguarded(method.clone())];
    }
    let scope_changed = old.key != new.key
        || old.scope != new.scope
        || (has_digests(new) && old.scope_secret != new.scope_secret)
        || (has_route(new) && old.name != new.name);
    let rules_changed = old.rules.digest() != new.rules.digest();
    let effects = [(scope_changed, Effect::NewKeys), (rules_changed && !scope_changed, Effect::EarlierRules)];
    effects.into_iter().filter_map(|(is_so, effect)| is_so.then_some(effect)).collect()
}

fn has_digests(route: &Route) -> bool {
    route.scope.iter().any(|part| matches!(part, ScopePart::Credential | ScopePart::Cookie(_)))
}

fn has_route(route: &Route) -> bool {
    route.scope.contains(&ScopePart::Route) || matches!(route.key, KeySource::Body(_))
}

/// A request of each route, once per method that the route guards.
fn samples(routes: &Routes) -> impl Iterator<Item = (Method, Uri)> {
    routes.iter().flat_map(|(matcher, route)| {
        let path = sample_path(matcher);
        let methods = route.methods.iter().filter(move |method| {
            let matched = matcher.and_then(|matcher| matcher.method.as_ref());
            matched.is_none_or(|matched| matched == *method)
        });
        methods.filter_map(move |method| Some((method.clone(), path.parse().ok()?)))
    })
}

/// A path that a route matches and hardly any other does.
fn sample_path(matcher: Option<&Matcher>) -> String {
    const SEGMENT: &str = "any~";
    let pattern = matcher.map_or("/**", |matcher| matcher.path.as_str());
    let segments = pattern.split('/').map(|segment| if matches!(segment, "*" | "**") { SEGMENT } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncegate_core::{
        Backend,
        fingerprint::{JsonPointer, Rules, RulesOptions},
    };
    use oncegate_tower::route::Pattern;

    use super::*;

    fn route(name: &str) -> Route {
        Route::gateway(name, Backend::Plain)
    }

    fn at(path: &str) -> Matcher {
        Matcher { method: None, path: Pattern::parse(path).unwrap() }
    }

    fn routes(path: &str, matched: Route) -> Routes {
        Routes::all(route("defaults")).with(at(path), matched)
    }

    fn found(before: &Routes, after: &Routes) -> Vec<(String, String, Effect)> {
        let found = LiveRecords::between(before, after);
        found.into_iter().map(|each| (each.before.to_owned(), each.route.to_owned(), each.effect)).collect()
    }

    fn one(before: &str, route: &str, effect: Effect) -> Vec<(String, String, Effect)> {
        vec![(before.to_owned(), route.to_owned(), effect)]
    }

    fn by_header() -> Route {
        let scope = vec![ScopePart::Header("x-org".parse().unwrap())];
        let mut route = route("pay");
        route.scope = scope;
        route
    }

    #[test]
    fn the_same_routes_do_nothing() {
        let unchanged = routes("/orders/*/pay", by_header());
        assert_eq!(found(&unchanged, &unchanged), []);
        let mut waiting = route("pay");
        waiting.wait = std::time::Duration::from_secs(1);
        assert_eq!(found(&routes("/pay", route("pay")), &routes("/pay", waiting)), []);
    }

    #[test]
    fn another_scope_makes_keys_new() {
        let plain = routes("/pay/**", route("pay"));
        assert_eq!(found(&plain, &routes("/pay/**", by_header())), one("pay", "pay", Effect::NewKeys));
        let mut by_other_key = route("pay");
        by_other_key.key = KeySource::Header("x-key".parse().unwrap());
        assert_eq!(found(&plain, &routes("/pay/**", by_other_key)), one("pay", "pay", Effect::NewKeys));
        let mut with_secret = route("pay");
        with_secret.scope_secret = Some(Arc::from(*b"0123456789abcdef"));
        assert_eq!(found(&plain, &routes("/pay/**", with_secret)), one("pay", "pay", Effect::NewKeys));
    }

    #[test]
    fn a_route_that_is_added_or_renamed_is_compared_with_the_one_that_had_its_requests() {
        let none = Routes::all(route("defaults"));
        assert_eq!(found(&none, &routes("/pay", route("pay"))), []);
        assert_eq!(found(&none, &routes("/pay", by_header())), one("defaults", "pay", Effect::NewKeys));
        assert_eq!(found(&routes("/pay", by_header()), &none), one("pay", "defaults", Effect::NewKeys));
        let named = |name| {
            let mut route = route(name);
            route.scope.push(ScopePart::Route);
            routes("/pay", route)
        };
        assert_eq!(found(&named("pay"), &named("paying")), one("pay", "paying", Effect::NewKeys));
    }

    #[test]
    fn methods_that_are_not_guarded_any_more_are_named() {
        let mut posts = route("pay");
        posts.methods = vec![Method::POST];
        let lost = one("pay", "pay", Effect::Unguarded(Method::PATCH));
        assert_eq!(found(&routes("/pay", route("pay")), &routes("/pay", posts)), lost);
    }

    #[test]
    fn other_rules_leave_the_earlier_ones_in_use() {
        let ignore = vec![JsonPointer::parse("/sent_at").unwrap()];
        let mut ignoring = route("pay");
        ignoring.rules = Arc::new(Rules::new(&RulesOptions { ignore, ..RulesOptions::default() }).unwrap());
        let (before, after) = (routes("/pay", route("pay")), routes("/pay", ignoring));
        assert_eq!(found(&before, &after), one("pay", "pay", Effect::EarlierRules));
    }
}
