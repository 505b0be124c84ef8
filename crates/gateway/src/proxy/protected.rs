//! The fields that `Connection` must not name.
//!
//! A field named there is removed by every hop. Naming one that the services behind rely on makes it vanish between us
//! and them (or between an authenticating proxy in front of us and us), so that two hops read one request differently.

use std::{collections::HashSet, sync::Arc};

use arc_swap::ArcSwap;
use http::{HeaderName, header};
use oncegate_tower::{
    Routes,
    route::{KeySource, ScopePart},
};

/// Protected whatever the routes say.
const ALWAYS: [HeaderName; 6] = [
    HeaderName::from_static("idempotency-key"),
    header::AUTHORIZATION,
    header::COOKIE,
    header::HOST,
    header::CONTENT_LENGTH,
    header::FORWARDED,
];

/// Where a client, and the proxies before us, say who it is.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// The fields that `Connection` must not name; clones share them, so that a reload reaches every connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProtectedHeaders {
    of_routes: Arc<ArcSwap<HashSet<HeaderName>>>,
}

// === impl ProtectedHeaders ===

impl ProtectedHeaders {
    /// Those that these routes read, besides the usual ones.
    pub(crate) fn of(routes: &Routes) -> Self {
        let protected = Self::default();
        protected.replace(routes);
        protected
    }

    /// Takes over the fields of other routes, on every clone.
    pub(crate) fn replace(&self, routes: &Routes) {
        let names = routes.iter().flat_map(|(_, route)| {
            let key = match &route.key {
                KeySource::Header(name) => Some(name),
                KeySource::Body(_) => None,
            };
            let scope = route.scope.iter().filter_map(|part| match part {
                ScopePart::Header(name) => Some(name),
                ScopePart::Credential | ScopePart::Cookie(_) | ScopePart::Route => None,
            });
            key.into_iter().chain(scope)
        });
        self.of_routes.store(Arc::new(names.cloned().collect()));
    }

    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        ALWAYS.contains(name) || name.as_str().starts_with(FORWARDED_PREFIX) || self.of_routes.load().contains(name)
    }
}
