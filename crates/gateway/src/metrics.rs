//! What the gate counts, and under which names.
//!
//! `docs/operating.md` explains each of them; a test holds it to what is registered here.

use std::{fmt, time::Duration};

use oncegate_core::{Census, Reaped, Suspicion};
use oncegate_tower::Routes;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

mod labels;
mod observer;
mod of_store;
mod route_counters;
#[cfg(test)]
mod tests;

use self::{
    labels::{ReapLabels, ReloadLabels, StaleLabels, StoreErrorLabels},
    of_store::StoreFigures,
    route_counters::RouteCounters,
};

// === names ===

const REQUESTS: &str = "oncegate_requests";
const CLAIM_DURATION: &str = "oncegate_claim_duration";
const COMPLETION_DURATION: &str = "oncegate_completion_duration";
const UPSTREAM_DURATION: &str = "oncegate_upstream_duration";
const EXECUTIONS: &str = "oncegate_executions";
const IN_FLIGHT_RECORDS: &str = "oncegate_in_flight_records";
const ABANDONED_RECORDS: &str = "oncegate_abandoned_records";
const UNKNOWN_RECORDS: &str = "oncegate_unknown_records";
const COMPLETED_RECORDS: &str = "oncegate_completed_records";
const TAKEOVERS: &str = "oncegate_takeovers";
const DOUBTS: &str = "oncegate_doubts";
const STALE_WRITES: &str = "oncegate_stale_writes";
const STORE_ERRORS: &str = "oncegate_store_errors";
const STORE_UP: &str = "oncegate_store_up";
const COALESCED: &str = "oncegate_coalesced_requests";
const MARKED: &str = "oncegate_marked_responses";
const ANONYMOUS: &str = "oncegate_anonymous_requests";
const SPLIT_SCOPES: &str = "oncegate_split_scopes";
const UNCOOPERATIVE: &str = "oncegate_uncooperative_responses";
const FAILED_OPEN: &str = "oncegate_failed_open_requests";
const SUSPECTED: &str = "oncegate_suspected_duplicates";
const CLIENTS_LEFT: &str = "oncegate_clients_left";
const STORE_BATCH: &str = "oncegate_store_batch_verbs";
const STORE_SIZE: &str = "oncegate_store_size";
const BREAKER_OPEN: &str = "oncegate_breaker_open";
const BREAKER_OPENINGS: &str = "oncegate_breaker_openings";
const OUTBOX_ENTRIES: &str = "oncegate_outbox_entries";
const OUTBOX_LAG: &str = "oncegate_outbox_lag";
const OUTBOX_POISON: &str = "oncegate_outbox_poison";
const OUTBOX_LATE: &str = "oncegate_outbox_late";
const REAPED: &str = "oncegate_reaped_records";
const ACCESS_LOG_DROPPED: &str = "oncegate_access_log_dropped_lines";
const CONFIG_RELOADS: &str = "oncegate_config_reloads";
const CONFIG_LAST_RELOAD_FAILED: &str = "oncegate_config_last_reload_failed";
const BUILD: &str = "oncegate_build";

/// The media type of [`Metrics::encode`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds. A commit on an SSD is about 1 ms; the store's default timeout is 2 s.
const STORE_BUCKETS: [f64; 13] = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Seconds. The default `upstream_timeout` is 60 s.
const UPSTREAM_BUCKETS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Verbs. The largest batch of a store holds 1,024.
const BATCH_BUCKETS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

// === types ===

/// Everything that is counted. Counting neither blocks for long nor allocates, apart from the first
/// time that a combination of labels is seen.
pub(crate) struct Metrics {
    registry: Registry,
    routes: RouteCounters,
    claim_duration: Histogram,
    completion_duration: Histogram,
    executions: Gauge,
    records: RecordGauges,
    takeovers: Counter,
    doubts: Counter,
    stale_writes: Family<StaleLabels, Counter>,
    store_errors: Family<StoreErrorLabels, Counter>,
    store_up: Gauge,
    of_store: StoreFigures,
    coalesced: Counter,
    marked: Counter,
    anonymous: Counter,
    split_scopes: Counter,
    uncooperative: Counter,
    failed_open: Counter,
    clients_left: Counter,
    reaped: Family<ReapLabels, Counter>,
    access_log_dropped: Counter,
    config_reloads: Family<ReloadLabels, Counter>,
    config_last_reload_failed: Gauge,
}

/// How many records are in which state.
#[derive(Debug, Default)]
struct RecordGauges {
    in_flight: Gauge,
    abandoned: Gauge,
    unknown: Gauge,
    completed: Gauge,
}

// === impl Metrics ===

impl Metrics {
    /// Nothing counted yet.
    pub(crate) fn new(routes: &Routes) -> Self {
        let metrics = Self {
            registry: Registry::default(),
            routes: RouteCounters::new(routes),
            claim_duration: Histogram::new(STORE_BUCKETS),
            completion_duration: Histogram::new(STORE_BUCKETS),
            executions: Gauge::default(),
            records: RecordGauges::default(),
            takeovers: Counter::default(),
            doubts: Counter::default(),
            stale_writes: stale_writes(),
            store_errors: Family::default(),
            store_up: Gauge::default(),
            of_store: StoreFigures::default(),
            coalesced: Counter::default(),
            marked: Counter::default(),
            anonymous: Counter::default(),
            split_scopes: Counter::default(),
            uncooperative: Counter::default(),
            failed_open: Counter::default(),
            clients_left: Counter::default(),
            reaped: Family::default(),
            access_log_dropped: Counter::default(),
            config_reloads: Family::default(),
            config_last_reload_failed: Gauge::default(),
        };
        metrics.registered()
    }

    /// The text of `/metrics`, of media type [`CONTENT_TYPE`]. `executing` is known to others.
    pub(crate) fn encode(&self, executing: usize) -> String {
        self.executions.set(i64::try_from(executing).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    /// The store said how many records it has.
    pub(crate) fn counted(&self, census: &Census) {
        let set = |gauge: &Gauge, count: u64| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&self.records.in_flight, census.in_flight);
        set(&self.records.abandoned, census.abandoned);
        set(&self.records.unknown, census.unknown);
        set(&self.records.completed, census.completed);
    }

    /// Whether the store could be read and written. The numbers of records stay what they were if not.
    pub(crate) fn store_tried(&self, is_up: bool) {
        self.store_up.set(i64::from(is_up));
    }

    /// Requests are counted by these routes as well from now on.
    pub(crate) fn add_routes(&self, routes: &Routes) {
        self.routes.add(routes);
    }

    /// Counts lines of the access log that could not be written.
    pub(crate) fn access_log_dropped(&self) -> Counter {
        self.access_log_dropped.clone()
    }

    /// Another configuration was taken over, or refused.
    pub(crate) fn config_reloaded(&self, is_done: bool) {
        let result = if is_done { "done" } else { "refused" };
        self.config_reloads.get_or_create(&ReloadLabels { result }).inc();
        self.config_last_reload_failed.set(i64::from(!is_done));
    }

    /// One request was found under two keys, and nobody had noted it before.
    pub(crate) fn suspected(&self, route: &str, suspicion: &Suspicion) {
        self.routes.suspect(route, suspicion.is_anonymous);
    }

    /// The reaper did a pass.
    pub(crate) fn reaped(&self, reaped: Reaped) {
        let add = |what, count: usize| {
            if count > 0 {
                self.reaped.get_or_create(&ReapLabels { what }).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
            }
        };
        add("expired", reaped.expired);
        add("abandoned", reaped.doubted);
    }

    fn registered(mut self) -> Self {
        let mut registry = Registry::default();
        registry.register(REQUESTS, "Requests answered", self.routes.requests());
        for (name, help, histogram) in [
            (CLAIM_DURATION, "How long the store took for a claim", &self.claim_duration),
            (COMPLETION_DURATION, "How long the store took to store a response", &self.completion_duration),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        let help = "How long the upstream took to the head of its answer, guarded requests only";
        registry.register_with_unit(UPSTREAM_DURATION, help, Unit::Seconds, self.routes.upstream());
        let help = "Requests of one caller that were executed under two keys";
        registry.register(SUSPECTED, help, self.routes.suspected());
        for (name, help, gauge) in [
            (EXECUTIONS, "Requests that this process executes now", &self.executions),
            (IN_FLIGHT_RECORDS, "Records under a live lease", &self.records.in_flight),
            (ABANDONED_RECORDS, "Records whose executor died, waiting for a takeover", &self.records.abandoned),
            (UNKNOWN_RECORDS, "Records that wait for an operator", &self.records.unknown),
            (COMPLETED_RECORDS, "Records with a stored response", &self.records.completed),
            (STORE_UP, "Whether the store could be read and written when it was last tried", &self.store_up),
            (
                CONFIG_LAST_RELOAD_FAILED,
                "Whether the last reload was refused, so that an earlier configuration is in force",
                &self.config_last_reload_failed,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            (TAKEOVERS, "Abandoned records that were executed again", &self.takeovers),
            (DOUBTS, "Executions whose outcome was lost", &self.doubts),
            (COALESCED, "Repeats that were answered without the store", &self.coalesced),
            (MARKED, "Responses that were not kept for replays", &self.marked),
            (ANONYMOUS, "Guarded requests in the scope that callers without an identity share", &self.anonymous),
            (SPLIT_SCOPES, "Repeats of one key and request in another scope", &self.split_scopes),
            (UNCOOPERATIVE, "Successes of a transactional backend that did not complete", &self.uncooperative),
            (FAILED_OPEN, "Requests that were not guarded because the store was down", &self.failed_open),
            (CLIENTS_LEFT, "Clients that left before their answer", &self.clients_left),
            (ACCESS_LOG_DROPPED, "Lines of the access log that nobody took", &self.access_log_dropped),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(STALE_WRITES, "Writes that came too late and changed nothing", self.stale_writes.clone());
        registry.register(STORE_ERRORS, "What the store could not do", self.store_errors.clone());
        self.of_store.register(&mut registry);
        registry.register(REAPED, "Records that the reaper deleted or gave up", self.reaped.clone());
        registry.register(CONFIG_RELOADS, "Reloads of the configuration", self.config_reloads.clone());
        registry.register(BUILD, "What is running", Info::new([("version", env!("CARGO_PKG_VERSION"))].to_vec()));
        self.registry = registry;
        self
    }
}

/// One for each verb from the beginning: of a counter that appears with its first count, `increase` sees nothing.
fn stale_writes() -> Family<StaleLabels, Counter> {
    let family = Family::default();
    for verb in ["complete", "doubt", "extend", "release"] {
        drop(family.get_or_create(&StaleLabels { verb }));
    }
    family
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn observe(histogram: &Histogram, duration: Duration) {
    histogram.observe(duration.as_secs_f64());
}
