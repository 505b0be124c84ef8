//! What is counted per route, found without allocating.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use oncegate_tower::{Outcome, Routes};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

use super::{
    UPSTREAM_BUCKETS,
    labels::{RequestLabels, RouteLabels, StatusLabel, SuspectLabels},
};

// === types ===

/// The families, and per route the series of them that were needed so far.
pub(super) struct RouteCounters {
    requests: Family<RequestLabels, Counter>,
    upstream: UpstreamFamily,
    suspected: Family<SuspectLabels, Counter>,
    by_route: ArcSwap<HashMap<Arc<str>, Arc<RouteSeries>>>,
}

pub(super) type UpstreamFamily = Family<RouteLabels, Histogram, fn() -> Histogram>;

/// The series of one route. One that was never needed does not exist, also not as a zero, apart from those that an alert
/// waits for.
struct RouteSeries {
    name: Arc<str>,
    requests: [OnceLock<Box<[OnceLock<Counter>]>>; Outcome::ALL.len()],
    upstream: OnceLock<Histogram>,
}

// === impl RouteCounters ===

impl RouteCounters {
    pub(super) fn new(routes: &Routes) -> Self {
        let counters = Self {
            requests: Family::default(),
            upstream: Family::new_with_constructor(|| Histogram::new(UPSTREAM_BUCKETS)),
            suspected: Family::default(),
            by_route: ArcSwap::default(),
        };
        counters.add(routes);
        counters
    }

    /// Counts by these routes as well. Those that were there stay: requests that they began are still to be
    /// answered, and a counter that vanished would look like a restart.
    pub(super) fn add(&self, routes: &Routes) {
        let mut by_route = HashMap::clone(&self.by_route.load());
        for (_, route) in routes.iter() {
            by_route.entry(Arc::clone(&route.name)).or_insert_with(|| Arc::new(RouteSeries::new(&route.name)));
            // There from the beginning: of a counter that appears with its first count, `increase` sees nothing.
            for is_anonymous in [false, true] {
                self.suspected.get_or_create_owned(&SuspectLabels::new(&route.name, is_anonymous));
            }
            let (outcome, status) = (Outcome::Unavailable.as_str(), StatusLabel::of(503));
            self.requests.get_or_create_owned(&RequestLabels { route: Arc::clone(&route.name), outcome, status });
        }
        self.by_route.store(Arc::new(by_route));
    }

    /// The family of `oncegate_requests_total`.
    pub(super) fn requests(&self) -> Family<RequestLabels, Counter> {
        self.requests.clone()
    }

    /// The family of `oncegate_upstream_duration_seconds`.
    pub(super) fn upstream(&self) -> UpstreamFamily {
        self.upstream.clone()
    }

    /// The family of `oncegate_suspected_duplicates_total`.
    pub(super) fn suspected(&self) -> Family<SuspectLabels, Counter> {
        self.suspected.clone()
    }

    /// One request was executed under two keys.
    pub(super) fn suspect(&self, route: &str, is_anonymous: bool) {
        self.suspected.get_or_create_owned(&SuspectLabels::new(&route.into(), is_anonymous)).inc();
    }

    /// A request was answered.
    pub(super) fn answered(&self, route: &str, outcome: Outcome, status: u16) {
        let by_route = self.by_route.load();
        let Some(series) = by_route.get(route) else { return };
        let status = StatusLabel::of(status);
        let labels = || RequestLabels { route: Arc::clone(&series.name), outcome: outcome.as_str(), status };
        // Made when an outcome is first seen: most routes never see most of them.
        let codes = || (0..StatusLabel::COUNT).map(|_| OnceLock::new()).collect();
        let counter = &series.requests[outcome as usize].get_or_init(codes)[status.index()];
        counter.get_or_init(|| self.requests.get_or_create_owned(&labels())).inc();
    }

    /// The upstream answered an execution.
    pub(super) fn executed(&self, route: &str, duration: std::time::Duration) {
        let by_route = self.by_route.load();
        let Some(series) = by_route.get(route) else { return };
        let labels = || RouteLabels { route: Arc::clone(&series.name) };
        super::observe(series.upstream.get_or_init(|| self.upstream.get_or_create_owned(&labels())), duration);
    }
}

// === impl RouteSeries ===

impl RouteSeries {
    fn new(name: &Arc<str>) -> Self {
        Self { name: Arc::clone(name), requests: Default::default(), upstream: OnceLock::new() }
    }
}
