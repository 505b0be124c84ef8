//! SIGHUP: reads the configuration again and takes it over whole, or not at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use oncegate_core::Timestamp;
use oncegate_tower::{Handle, Routes};

use super::live_records::{Effect, LiveRecords};
use crate::{
    admin::SharedToken,
    config::{self, Config, Faults, RouteChange, Sources},
    metrics::Metrics,
    proxy::ProtectedHeaders,
    records::desk,
    well_known::Published,
};

// === types ===

/// What is needed to take over another configuration.
#[derive(Debug)]
pub(super) struct Reloader {
    /// File and flags, as at the start.
    pub(super) sources: Sources,
    /// What is in force.
    pub(super) running: Config,
    pub(super) parts: Parts,
    pub(super) last: Arc<LastReload>,
}

/// What a running gate can exchange. Requests under way keep what they began with.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) protected: ProtectedHeaders,
    pub(crate) published: Published,
    pub(crate) guard: Handle,
    pub(crate) token: SharedToken,
}

/// How the last reload ended, for the admin listener.
#[derive(Debug, Default)]
pub(crate) struct LastReload(Mutex<Option<Reloaded>>);

/// How a reload ended.
#[derive(Debug, Clone)]
pub(crate) struct Reloaded {
    pub(crate) at: Timestamp,
    /// Why it was refused; empty if it was taken over.
    pub(crate) faults: Vec<String>,
}

// === impl Reloader ===

impl Reloader {
    /// Reads file, environment and flags again. A configuration with any fault changes nothing.
    ///
    /// Blocks while it reads files: nothing but signals waits for this thread.
    pub(super) fn reload(&mut self) {
        let loaded = config::load(&self.sources, std::env::vars_os());
        let checked = loaded.and_then(|config| config.check_over(&self.running).map(|()| config));
        let faults = match checked {
            Ok(config) => {
                self.take_over(config);
                Vec::new()
            }
            Err(faults) => refused(&faults),
        };
        self.parts.metrics.config_reloaded(faults.is_empty());
        self.last.set(Reloaded { at: desk::now(), faults });
    }

    fn take_over(&mut self, config: Config) {
        let changes = config.route_changes(&self.running);
        say_what_changed(&changes, &self.running.routes, &config.routes);
        for warning in &config.warnings {
            tracing::warn!(warning, "a choice that is allowed and risky");
        }
        self.parts.take_over(&config);
        self.running = config;
        tracing::info!(routes_changed = changes.len(), "configuration reloaded");
    }
}

fn refused(faults: &Faults) -> Vec<String> {
    let faults: Vec<_> = faults.to_string().lines().map(str::to_owned).collect();
    for fault in &faults {
        tracing::error!(fault, "fault in the configuration");
    }
    tracing::error!(faults = faults.len(), "reload refused: what was in force before stays in force");
    faults
}

fn say_what_changed(changes: &BTreeMap<String, RouteChange>, before: &Routes, after: &Routes) {
    for (route, change) in changes {
        match change {
            RouteChange::Added => tracing::info!(route, "route added"),
            RouteChange::Removed => tracing::info!(route, "route removed"),
            RouteChange::Changed(keys) => tracing::info!(route, changed = keys.join(", "), "route changed"),
        }
    }
    if is_reordered(before, after) {
        tracing::info!("routes are tried in another order");
    }
    for LiveRecords { route, before, effect } in LiveRecords::between(before, after) {
        match effect {
            Effect::Unguarded(method) => tracing::warn!(
                route,
                before,
                %method,
                "live records: requests are not guarded any more, so repeats of keys claimed before execute again"
            ),
            Effect::NewKeys => tracing::warn!(
                route,
                before,
                "live records: the scope changed, so keys claimed before are new keys, and their repeats execute again"
            ),
            Effect::EarlierRules => tracing::info!(
                route,
                before,
                "live records: the fingerprint rules changed; records made before are compared by their own until they have ended"
            ),
        }
    }
}

/// Whether routes that are in both stand in another order.
fn is_reordered(before: &Routes, after: &Routes) -> bool {
    let names = |routes: &Routes| routes.iter().map(|(_, route)| Arc::clone(&route.name)).collect::<Vec<_>>();
    let (mut before, mut after) = (names(before), names(after));
    before.retain(|name| after.contains(name));
    after.retain(|name| before.contains(name));
    before != after
}

// === impl Parts ===

impl Parts {
    /// Cannot fail. What protects and counts comes before what it is needed for.
    fn take_over(&self, config: &Config) {
        self.metrics.add_routes(&config.routes);
        self.protected.replace(&config.routes);
        self.token.replace(config.admin.token.clone());
        self.guard.set_routes(config.routes.clone());
        self.published.replace(&config.routes);
    }
}

// === impl LastReload ===

impl LastReload {
    /// `None` if there was none since the start.
    pub(crate) fn get(&self) -> Option<Reloaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the file is not what is in force.
    pub(crate) fn is_refused(&self) -> bool {
        self.get().is_some_and(|last| !last.faults.is_empty())
    }

    fn set(&self, reloaded: Reloaded) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reloaded);
    }
}
