//! Which requests are guarded, and how.

use std::{sync::Arc, time::Duration};

use http::{Extensions, HeaderName, HeaderValue, Method, Uri};
use oncegate_core::{
    Backend, Policy, PolicyError,
    fingerprint::{JsonPointer, Rules, RulesOptions},
};
use tokio::time::Instant;

mod path;

pub use self::path::{Pattern, PatternError, normalised};

// === types ===

/// How the requests of one route are guarded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Route {
    /// What logs, metrics and the published policy call it.
    pub name: Arc<str>,
    /// The methods that are guarded; the header is ignored on GET, HEAD and OPTIONS whatever this
    /// says.
    pub methods: Vec<Method>,
    /// Whether a request without a key is refused.
    pub required: bool,
    /// Where the key is.
    pub key: KeySource,
    /// What identifies the caller.
    pub scope: Vec<ScopePart>,
    /// What becomes of callers without an identity.
    pub anonymous: Anonymous,
    /// Makes the digests of credentials unguessable for whoever can read the store.
    pub scope_secret: Option<Arc<[u8]>>,
    /// How requests are compared.
    pub rules: Arc<Rules>,
    /// Rules of earlier configurations, for comparing with the records that were made under them.
    pub superseded_rules: Vec<Superseded>,
    /// The terms of a claim.
    pub policy: Arc<Policy>,
    /// How long a repeat waits for the first request before it gets 409.
    pub wait: Duration,
    /// Whether requests go on unguarded while the store is down.
    pub fail_open: bool,
    /// Whether responses are stored with their bodies.
    pub store_body: bool,
    /// The longest request body, in bytes.
    pub max_request_body: u64,
    /// The longest response body that is stored, in bytes.
    pub max_stored_body: usize,
    /// Response headers that replays carry besides the usual ones.
    pub replay_headers: Vec<HeaderName>,
    /// For the inner service: what proves that an execution was claimed here. Sent as [`SECRET`](crate::SECRET) with
    /// guarded requests only; mark it as sensitive, so that no log has it.
    pub upstream_secret: Option<HeaderValue>,
    /// For the inner service: how long the response head may take.
    pub upstream_timeout: Duration,
    /// For the inner service: how long each further part of the response may take.
    pub idle_timeout: Duration,
}

/// Rules that new records are not made under any more.
#[derive(Debug, Clone)]
pub struct Superseded {
    pub(crate) rules: Arc<Rules>,
    until: Instant,
}

/// Where a request carries its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A header field: `Idempotency-Key`, or what the API calls it.
    Header(HeaderName),
    /// A member of the JSON body, for webhooks: `/id`. The route is then part of the scope.
    Body(JsonPointer),
}

/// Something that identifies the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopePart {
    /// The digest of `Authorization`.
    Credential,
    /// A header set by the proxy that authenticates, as it is.
    Header(HeaderName),
    /// The digest of a cookie.
    Cookie(Box<str>),
    /// The route's name: one key is then another record on each route.
    Route,
}

/// What becomes of callers that nothing identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Anonymous {
    /// They share one scope; safe only with random keys of 128 bits.
    #[default]
    Share,
    /// They get 400.
    Reject,
}

/// Routes in order: the first match wins, and what matches none gets the defaults.
#[derive(Debug, Clone)]
pub struct Routes {
    matched: Vec<(Matcher, Arc<Route>)>,
    default: Arc<Route>,
}

/// What a route matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// `None`: every method.
    pub method: Option<Method>,
    /// Of the normalised path.
    pub path: Pattern,
}

// === impl Route ===

impl Route {
    /// The default of [`Self::max_request_body`]: 10 MiB.
    pub const MAX_REQUEST_BODY: u64 = 10 * 1024 * 1024;
    /// The default of [`Self::max_stored_body`]: 1 MiB.
    pub const MAX_STORED_BODY: usize = 1024 * 1024;

    /// The defaults before a backend behind a gateway.
    #[must_use]
    pub fn gateway(name: &str, backend: Backend) -> Self {
        Self::with_policy(name, Policy::gateway(backend))
    }

    /// The defaults around handlers in the same process.
    #[must_use]
    pub fn layer(name: &str, backend: Backend) -> Self {
        Self::with_policy(name, Policy::layer(backend))
    }

    /// Refuses a policy that cannot be kept.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        self.policy.check()
    }

    /// Whether a request with this method can be guarded.
    #[must_use]
    pub fn guards(&self, method: &Method) -> bool {
        !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::CONNECT | Method::TRACE)
            && self.methods.contains(method)
    }

    fn with_policy(name: &str, policy: Policy) -> Self {
        let rules = Rules::new(&RulesOptions::default()).expect("the default options are valid, tested in core");
        Self {
            name: name.into(),
            methods: vec![Method::POST, Method::PATCH],
            required: false,
            key: KeySource::default(),
            scope: vec![ScopePart::Credential],
            anonymous: Anonymous::default(),
            scope_secret: None,
            rules: Arc::new(rules),
            superseded_rules: Vec::new(),
            policy: Arc::new(policy),
            wait: Duration::ZERO,
            fail_open: false,
            store_body: true,
            max_request_body: Self::MAX_REQUEST_BODY,
            max_stored_body: Self::MAX_STORED_BODY,
            replay_headers: Vec::new(),
            upstream_secret: None,
            upstream_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl Route {
    /// Takes over the rules that an earlier configuration leaves behind, beside those that it had already.
    fn succeed(&mut self, left_behind: &[Superseded]) {
        for superseded in left_behind {
            remember(&mut self.superseded_rules, superseded);
        }
        self.superseded_rules.retain(|superseded| superseded.rules.digest() != self.rules.digest());
    }
}

/// Adds rules that are still in use; the same rules stand there once, until the later of their ends.
fn remember(list: &mut Vec<Superseded>, rules: &Superseded) {
    match list.iter_mut().find(|each| each.rules.digest() == rules.rules.digest()) {
        Some(known) => known.until = known.until.max(rules.until),
        None if rules.is_in_use() => list.push(rules.clone()),
        None => {}
    }
}

// === impl Superseded ===

impl Superseded {
    /// Until the last record that was made under them has ended.
    pub(crate) fn is_in_use(&self) -> bool {
        Instant::now() < self.until
    }
}

// === impl KeySource ===

impl Default for KeySource {
    fn default() -> Self {
        Self::Header(HeaderName::from_static("idempotency-key"))
    }
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header {name}"),
            Self::Body(pointer) => write!(f, "the body at {}", pointer.as_str()),
        }
    }
}

// === impl Routes ===

impl Routes {
    /// Guards every request by one set of rules.
    #[must_use]
    pub fn all(default: Route) -> Self {
        Self { matched: Vec::new(), default: Arc::new(default) }
    }

    /// Adds a route behind those that are there.
    #[must_use]
    pub fn with(mut self, matcher: Matcher, route: Route) -> Self {
        self.matched.push((matcher, Arc::new(route)));
        self
    }

    /// Takes over what an earlier configuration leaves behind: its records are compared under the
    /// rules that they were made with until they have ended.
    ///
    /// Each route takes over the rules of all: a request that was one route's may be another's now.
    #[must_use]
    pub fn succeeding(mut self, previous: &Self) -> Self {
        let left_behind = previous.left_behind();
        let routes = self.matched.iter_mut().map(|(_, route)| route).chain(std::iter::once(&mut self.default));
        routes.for_each(|route| Arc::make_mut(route).succeed(&left_behind));
        self
    }

    fn left_behind(&self) -> Vec<Superseded> {
        let mut left_behind = Vec::new();
        for (_, route) in self.iter() {
            let until = Instant::now() + route.policy.retention;
            remember(&mut left_behind, &Superseded { rules: Arc::clone(&route.rules), until });
            route.superseded_rules.iter().for_each(|superseded| remember(&mut left_behind, superseded));
        }
        left_behind
    }

    /// The route of a request; its path is normalised first.
    #[must_use]
    pub fn find(&self, method: &Method, uri: &Uri) -> &Arc<Route> {
        if self.matched.is_empty() {
            return &self.default;
        }
        let path = normalised(uri.path());
        let matched = self.matched.iter().find(|(matcher, _)| matcher.matches(method, &path));
        matched.map_or(&self.default, |(_, route)| route)
    }

    /// All of them in order, the defaults last.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Matcher>, &Arc<Route>)> {
        let matched = self.matched.iter().map(|(matcher, route)| (Some(matcher), route));
        matched.chain(std::iter::once((None, &self.default)))
    }
}

/// The URI that a client asked for, also in a router that is nested in another one.
pub(crate) fn requested_uri<'a>(extensions: &'a Extensions, uri: &'a Uri) -> &'a Uri {
    #[cfg(feature = "axum")]
    let uri = crate::extract::original_uri(extensions).unwrap_or(uri);
    #[cfg(not(feature = "axum"))]
    let _ = extensions;
    uri
}

// === impl Matcher ===

impl Matcher {
    fn matches(&self, method: &Method, path: &str) -> bool {
        self.method.as_ref().is_none_or(|mine| mine == method) && self.path.matches(path)
    }
}
