//! Choices that are allowed and risky. Each warning says what can happen.

use oncegate_core::{Backend, OnAbandoned};
use oncegate_tower::route::{Anonymous, ScopePart};

use super::{
    StoreSettings,
    route::{RouteHead, RouteSettings},
};
use crate::store_address::StoreAddress;

/// About where records live.
pub(super) fn of_store(store: &StoreSettings) -> Vec<String> {
    match &store.address {
        StoreAddress::Memory => vec![
            "the store is the memory of this process: a restart forgets every key, and a second gateway would execute \
             the same key again"
                .to_owned(),
        ],
        StoreAddress::Redis(_) => of_redis(store),
        StoreAddress::Sqlite(_) | StoreAddress::Postgres(_) => Vec::new(),
    }
}

fn of_redis(store: &StoreSettings) -> Vec<String> {
    let warnings = [
        (
            true,
            "the store is a Redis alone: repeats are normally suppressed, and a failover, a restart, eviction or a clock \
             step can mean a second execution; not where a duplicate costs money",
        ),
        (
            store.redis.cold.is_zero(),
            "cold = \"0s\" takes claims at once from a Redis that lost its records, while executions of before may still run",
        ),
        (store.redis.allow_eviction, "allow_eviction = true executes a repeat again whose record Redis evicted"),
    ];
    warnings.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text.to_owned()).collect()
}

/// About what a route matches.
pub(super) fn of_match(head: &RouteHead, settings: &RouteSettings) -> Option<String> {
    let (name, method) = (&head.name.value, head.matcher.value.method.as_ref()?);
    let is_excluded = settings.methods.is_written() && !settings.methods.value.contains(method);
    is_excluded.then(|| format!("route {name} guards nothing: it matches {method} only, and methods does not have it"))
}

/// About how a route guards.
pub(super) fn of_route(name: &str, settings: &RouteSettings, store: &StoreSettings) -> Vec<String> {
    let is_plain = settings.backend.value == Backend::Plain;
    let is_transactional = settings.backend.value == Backend::Transactional;
    let identifies = |part: &ScopePart| *part != ScopePart::Route;
    let released: Vec<_> =
        settings.statuses.value.release.iter().filter(|status| matches!(status, 500 | 502 | 504)).collect();
    let address = &store.address;
    let is_forgetful = matches!(address, StoreAddress::Redis(_)) && !store.redis.cold.is_zero();
    let warnings = [
        (
            is_forgetful && settings.lease.value > store.redis.cold,
            "lease is longer than [store] cold: after Redis lost its records a repeat may execute while the first request \
             still runs"
                .to_owned(),
        ),
        (
            is_plain && settings.on_abandoned.value == OnAbandoned::Takeover,
            "on_abandoned = \"takeover\" before a plain backend executes a request again after a crash, whether or not \
             its effect happened"
                .to_owned(),
        ),
        (
            settings.fail_open.value,
            "fail_open = true executes every repeat while the store is down".to_owned(),
        ),
        (
            is_plain && settings.anonymous.value == Anonymous::Share && settings.anonymous.is_written(),
            "anonymous = \"share\" lets callers without an identity get each other's responses if their keys can be \
             guessed"
                .to_owned(),
        ),
        (
            !settings.scope.value.iter().any(identifies) && settings.anonymous.value == Anonymous::Share,
            "scope names nothing that identifies a caller: all callers share one space of keys".to_owned(),
        ),
        (
            is_plain && !released.is_empty(),
            format!("statuses releases {released:?}: a repeat executes again although the effect may have happened"),
        ),
        (
            is_transactional && !matches!(store.address, StoreAddress::Postgres(_)),
            format!(
                "a transactional backend completes its records in PostgreSQL and cannot in {address}: a repeat after a \
                 crash executes again, whether or not its effect happened"
            ),
        ),
        (
            is_transactional && settings.lease.value < settings.upstream_timeout.value,
            "lease is shorter than upstream_timeout and is not extended before a transactional backend: a repeat may \
             execute while the first request still runs, and one of the two is rolled back"
                .to_owned(),
        ),
    ];
    warnings.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| format!("route {name}: {text}")).collect()
}
