//! `[defaults]` and all `[[route]]` together.

use std::iter;

use http::HeaderValue;
use oncegate_core::fingerprint::Secret;
use oncegate_tower::Routes;

use super::{
    StoreSettings,
    origin::{Fault, Sourced},
    route::{RouteHead, RouteSettings},
    route_kind::DEFAULTS,
    secret::Secrets,
    section::{Notes, Section},
    warning,
};
use crate::store_address::StoreAddress;

/// What was read, before routes are made of it.
#[derive(Debug)]
pub(super) struct RouteList {
    defaults: RouteSettings,
    routes: Vec<(RouteHead, RouteSettings)>,
}

impl RouteList {
    /// Reads all tables. Routes without a name or match are left out, which is noted as a fault.
    pub(super) fn read(mut defaults_section: Section, sections: Vec<Section>, notes: &mut Notes) -> Self {
        let defaults = RouteSettings::read(&mut defaults_section, RouteSettings::builtin());
        defaults_section.finish(notes);
        let mut routes = Vec::new();
        for mut section in sections {
            let head = RouteHead::read(&mut section);
            let inherited = head.as_ref().map_or_else(|| defaults.clone(), |head| defaults.inherited_by(head));
            // Also without a head, so that the faults of the other keys are found too.
            let settings = RouteSettings::read(&mut section, inherited);
            section.finish(notes);
            if let Some(head) = head {
                notes.faults.extend(head.clash(routes.iter().map(|(earlier, _)| earlier)));
                routes.push((head, settings));
            }
        }
        Self { defaults, routes }
    }

    /// Choices that are allowed and risky.
    pub(super) fn warnings(&self, store: &StoreSettings) -> Vec<String> {
        let mut warnings = warning::of_route(DEFAULTS, &self.defaults, store);
        for (head, settings) in &self.routes {
            warnings.extend(warning::of_match(head, settings));
            warnings.extend(warning::of_route(&head.name.value, settings, store));
        }
        warnings
    }

    /// Secrets for backends that could not complete a record, so that each of their requests would fail, and secrets
    /// that no route sends, as whoever wrote one relies on it.
    pub(super) fn misplaced_secrets(&self, store: &StoreAddress) -> Vec<Fault> {
        let all = || iter::once(&self.defaults).chain(self.routes.iter().map(|(_, settings)| settings));
        let sent: Vec<_> = all().filter_map(RouteSettings::sent_secret).map(|secret| &secret.origin).collect();
        let fault = |secret: &Sourced<HeaderValue>| {
            let text = match (sent.contains(&&secret.origin), store) {
                (true, StoreAddress::Postgres(_)) => return None,
                (true, store) => format!("the backend completes its records in PostgreSQL and cannot in {store}"),
                (false, _) => "it is sent to no backend: only one that is \"transactional\" gets it".to_owned(),
            };
            Some(Fault::new(&secret.origin, text).of_key("upstream_secret"))
        };
        all().filter_map(|settings| settings.upstream_secret.as_ref()).filter_map(fault).collect()
    }

    /// The routes. Records that were made under an earlier secret, or before there was one, are compared with that.
    ///
    /// # Errors
    /// Every fault of values that do not go together.
    pub(super) fn routes(&self, secrets: &Secrets) -> Result<Routes, Vec<Fault>> {
        let mut routes = self.routes_with(None, secrets)?;
        for secret in secrets.oldest_first() {
            routes = self.routes_with(Some(secret), secrets)?.succeeding(&routes);
        }
        Ok(routes)
    }

    fn routes_with(&self, secret: Option<&Secret>, secrets: &Secrets) -> Result<Routes, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut make = |name, settings: &RouteSettings| {
            let mut route = settings.route(name, secret).map_err(|fault| faults.push(fault)).ok()?;
            route.scope_secret = secrets.scope();
            Some(route)
        };
        let mut routes = make(DEFAULTS, &self.defaults).map(Routes::all);
        for (head, settings) in &self.routes {
            let route = make(&head.name.value, settings);
            routes = routes.zip(route).map(|(routes, route)| routes.with(head.matcher.value.clone(), route));
        }
        routes.ok_or(faults)
    }
}
