//! The keys of `[defaults]` and `[[route]]`, and the routes that they make.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Method};
use oncegate_core::{
    Backend, Disposition, OnAbandoned, PolicyError, StatusTable,
    fingerprint::{JsonPointer, Mode, Rules, RulesOptions, Secret},
};
use oncegate_tower::{
    Route,
    route::{Anonymous, KeySource, Matcher, ScopePart},
};

use super::{
    origin::{Fault, Sourced},
    route_kind::{
        ANONYMOUS, BACKEND, COUNT, FINGERPRINT, FLAG, HEADERS, IDLE, IGNORE, KEY, LEASE, MATCH, METHODS, NAME,
        ON_ABANDONED, REQUEST_BODY, RETENTION, SCOPE, STATUSES, STORED_BODY, Statuses, UPSTREAM, WAIT, is_guardable,
    },
    secret,
    section::Section,
    written::variable_segment,
};

// === types ===

/// The values of one `[[route]]`, or of `[defaults]`.
#[derive(Debug, Clone)]
pub(super) struct RouteSettings {
    pub(super) backend: Sourced<Backend>,
    pub(super) on_abandoned: Sourced<OnAbandoned>,
    max_attempts: Sourced<u32>,
    pub(super) methods: Sourced<Vec<Method>>,
    required: Sourced<bool>,
    pub(super) key: Sourced<KeySource>,
    pub(super) scope: Sourced<Vec<ScopePart>>,
    pub(super) anonymous: Sourced<Anonymous>,
    fingerprint: Sourced<Mode>,
    ignore: Sourced<Vec<JsonPointer>>,
    pub(super) lease: Sourced<Duration>,
    retention: Sourced<Duration>,
    pub(super) wait: Sourced<Duration>,
    pub(super) fail_open: Sourced<bool>,
    store_body: Sourced<bool>,
    max_request_body: Sourced<u64>,
    max_stored_body: Sourced<u64>,
    replay_headers: Sourced<Vec<HeaderName>>,
    pub(super) statuses: Sourced<Statuses>,
    pub(super) upstream_secret: Option<Sourced<HeaderValue>>,
    pub(super) upstream_timeout: Sourced<Duration>,
    idle_timeout: Sourced<Duration>,
}

/// What a `[[route]]` has besides.
#[derive(Debug, Clone)]
pub(super) struct RouteHead {
    pub(super) name: Sourced<String>,
    pub(super) matcher: Sourced<Matcher>,
}

/// What a transactional lease has beyond `upstream_timeout`: time for the answer to come back.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

// === impl RouteHead ===

impl RouteHead {
    /// Reads `name` and `match`; `None` if one is missing or faulty, which is noted.
    pub(super) fn read(section: &mut Section) -> Option<Self> {
        let name = section.get_required("name", &NAME, r#"give the route a name, such as name = "payments""#);
        let matcher = section.get_required("match", &MATCH, r#"say which requests, such as match = "POST /payments""#);
        Some(Self { name: name?, matcher: matcher? })
    }

    /// What keeps this route from being told apart from an earlier one, or from being reached.
    pub(super) fn clash<'a>(&self, earlier: impl Iterator<Item = &'a Self> + Clone) -> Option<Fault> {
        let (name, matcher) = (&self.name, &self.matcher);
        let same_name = |each: &&Self| variable_segment(&each.name.value) == variable_segment(&name.value);
        if let Some(each) = earlier.clone().find(same_name) {
            let text = format!("the name {:?} is taken by {:?}, {}", name.value, each.name.value, each.name.origin);
            return Some(Fault::new(&name.origin, text));
        }
        let covers = |each: &&Self| {
            let each = &each.matcher.value;
            each.path == matcher.value.path && (each.method.is_none() || each.method == matcher.value.method)
        };
        let cover = earlier.into_iter().find(covers)?;
        let text = format!("{:?} is never reached: {:?} matches the same before it", name.value, cover.name.value);
        Some(Fault::new(&matcher.origin, text))
    }
}

// === impl RouteSettings ===

impl RouteSettings {
    /// What holds where nobody wrote anything.
    pub(super) fn builtin() -> Self {
        let route = Route::gateway("", Backend::Plain);
        let policy = &route.policy;
        Self {
            backend: Sourced::default(policy.backend),
            on_abandoned: Sourced::default(policy.on_abandoned),
            max_attempts: Sourced::default(policy.max_attempts),
            methods: Sourced::default(route.methods),
            required: Sourced::default(route.required),
            key: Sourced::default(route.key),
            scope: Sourced::default(route.scope),
            anonymous: Sourced::default(route.anonymous),
            fingerprint: Sourced::default(route.rules.mode()),
            ignore: Sourced::default(Vec::new()),
            lease: Sourced::default(policy.lease),
            retention: Sourced::default(policy.retention),
            wait: Sourced::default(route.wait),
            fail_open: Sourced::default(route.fail_open),
            store_body: Sourced::default(route.store_body),
            max_request_body: Sourced::default(route.max_request_body),
            max_stored_body: Sourced::default(u64::try_from(route.max_stored_body).unwrap_or(u64::MAX)),
            replay_headers: Sourced::default(route.replay_headers),
            statuses: Sourced::default(Statuses::default()),
            upstream_secret: None,
            upstream_timeout: Sourced::default(route.upstream_timeout),
            idle_timeout: Sourced::default(route.idle_timeout),
        }
    }

    /// Reads the keys of a table; what it does not have is inherited.
    pub(super) fn read(section: &mut Section, inherited: Self) -> Self {
        inherited.with_backend(section).with_times(section).with_identity(section).with_bodies(section)
    }

    fn with_backend(self, section: &mut Section) -> Self {
        let backend = section.get("backend", &BACKEND, self.backend.clone());
        let on_abandoned = inherited_rule(&backend, &self);
        Self {
            on_abandoned: section.get("on_abandoned", &ON_ABANDONED, on_abandoned),
            max_attempts: section.get("max_attempts", &COUNT, self.max_attempts),
            statuses: section.get("statuses", &STATUSES, self.statuses),
            fail_open: section.get("fail_open", &FLAG, self.fail_open),
            upstream_secret: secret::upstream(section).or(self.upstream_secret),
            backend,
            ..self
        }
    }

    fn with_times(self, section: &mut Section) -> Self {
        let upstream_timeout = section.get("upstream_timeout", &UPSTREAM, self.upstream_timeout);
        let lease = self.lease.or_derived(derived_lease(self.backend.value, upstream_timeout.value));
        Self {
            idle_timeout: section.get("idle_timeout", &IDLE, self.idle_timeout),
            lease: section.get("lease", &LEASE, lease),
            retention: section.get("retention", &RETENTION, self.retention),
            wait: section.get("wait", &WAIT, self.wait),
            upstream_timeout,
            ..self
        }
    }

    fn with_identity(self, section: &mut Section) -> Self {
        Self {
            methods: section.get("methods", &METHODS, self.methods),
            required: section.get("required", &FLAG, self.required),
            key: section.get("key", &KEY, self.key),
            scope: section.get("scope", &SCOPE, self.scope),
            anonymous: section.get("anonymous", &ANONYMOUS, self.anonymous),
            fingerprint: section.get("fingerprint", &FINGERPRINT, self.fingerprint),
            ignore: section.get("ignore", &IGNORE, self.ignore),
            ..self
        }
    }

    fn with_bodies(self, section: &mut Section) -> Self {
        Self {
            max_request_body: section.get("max_request_body", &REQUEST_BODY, self.max_request_body),
            store_body: section.get("store_body", &FLAG, self.store_body),
            max_stored_body: section.get("max_stored_body", &STORED_BODY, self.max_stored_body),
            replay_headers: section.get("replay_headers", &HEADERS, self.replay_headers),
            ..self
        }
    }

    /// What a route inherits from these defaults. A match that names a method opts that method in.
    pub(super) fn inherited_by(&self, head: &RouteHead) -> Self {
        let mut inherited = self.clone();
        if let Some(method) = head.matcher.value.method.clone().filter(is_guardable) {
            inherited.methods = Sourced { value: vec![method], origin: head.matcher.origin.clone() };
        }
        inherited
    }

    /// The route that these values make, whose fingerprints are keyed by the secret.
    ///
    /// # Errors
    /// When the values do not go together.
    pub(super) fn route(&self, name: &str, secret: Option<&Secret>) -> Result<Route, Fault> {
        let mut route = Route::gateway(name, self.backend.value);
        let mut policy = (*route.policy).clone();
        policy.on_abandoned = self.on_abandoned.value;
        policy.max_attempts = self.max_attempts.value;
        policy.lease = self.lease.value;
        policy.retention = self.retention.value;
        policy.statuses = self.status_table();
        policy.check().map_err(|error| self.policy_fault(&error))?;
        route.policy = Arc::new(policy);
        route.rules = Arc::new(self.rules(secret)?);
        route.methods.clone_from(&self.methods.value);
        route.required = self.required.value;
        route.key = self.key.value.clone();
        route.scope.clone_from(&self.scope.value);
        route.anonymous = self.anonymous.value;
        route.wait = self.wait.value;
        route.fail_open = self.fail_open.value;
        route.store_body = self.store_body.value;
        route.max_request_body = self.max_request_body.value;
        route.max_stored_body = usize::try_from(self.max_stored_body.value).unwrap_or(usize::MAX);
        route.replay_headers.clone_from(&self.replay_headers.value);
        route.upstream_secret = self.sent_secret().map(|secret| secret.value.clone());
        route.upstream_timeout = self.upstream_timeout.value;
        route.idle_timeout = self.idle_timeout.value;
        Ok(route)
    }

    /// What proves to the backend that its request was claimed here. Only one that completes our record may be told so:
    /// any other would rely on it, and dedupe nothing itself.
    pub(super) fn sent_secret(&self) -> Option<&Sourced<HeaderValue>> {
        self.upstream_secret.as_ref().filter(|_| self.backend.value == Backend::Transactional)
    }

    fn status_table(&self) -> StatusTable {
        let Statuses { release, store, ambiguous } = &self.statuses.value;
        let declared =
            [(release, Disposition::Release), (store, Disposition::Store), (ambiguous, Disposition::Ambiguous)];
        let each = declared.into_iter().flat_map(|(list, meaning)| list.iter().map(move |&status| (status, meaning)));
        each.fold(StatusTable::gateway(), |table, (status, meaning)| table.with(status, meaning))
    }

    fn rules(&self, secret: Option<&Secret>) -> Result<Rules, Fault> {
        let options = RulesOptions {
            mode: self.fingerprint.value,
            ignore: self.ignore.value.clone(),
            secret: secret.cloned(),
            // A body that decodes to more than the route takes is refused like one that is longer.
            decoded_bytes_max: self.max_request_body.value,
        };
        Rules::new(&options).map_err(|error| Fault::new(&self.ignore.origin, error.to_string()).of_key("ignore"))
    }

    /// Blames the value that was written last in the order lease, retention; defaults are never wrong.
    fn policy_fault(&self, error: &PolicyError) -> Fault {
        let blamed = if self.lease.is_written() { &self.lease } else { &self.retention };
        Fault::new(&blamed.origin, error.to_string())
    }
}

/// A route with a backend of its own does not inherit what another backend's abandoned records
/// become: what is harmless before one executes twice before the other.
fn inherited_rule(backend: &Sourced<Backend>, inherited: &RouteSettings) -> Sourced<OnAbandoned> {
    let derived = backend.value.on_abandoned();
    if backend.value != inherited.backend.value {
        return Sourced::default(derived);
    }
    inherited.on_abandoned.clone().or_derived(derived)
}

/// A transactional route's lease is not extended, since that would wait for the backend's own open
/// transaction; so it covers the longest execution from the start.
fn derived_lease(backend: Backend, upstream_timeout: Duration) -> Duration {
    match backend {
        Backend::Transactional => upstream_timeout + LEASE_MARGIN,
        Backend::Plain | Backend::Idempotent => RouteSettings::builtin().lease.value,
    }
}
