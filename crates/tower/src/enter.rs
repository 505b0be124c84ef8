//! The first steps of the flow: key + scope → fingerprint.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use oncegate_core::{Claim, ClaimRequest, Fingerprint, Operation, Owner, RecordId};

use crate::{
    BoxError, Event, Problem, RequestBody, Route,
    admit::{Admission, admit, admit_body, identify, is_gzip},
    claim::Guarded,
    layer::Gate,
    local::Told,
    receive::{ReceiveError, Received, check_length, receive},
    route::{normalised, requested_uri},
};

// === types ===

/// What the request itself says.
#[allow(clippy::large_enum_variant, reason = "moved once, into the flow")]
pub(crate) enum Entered<B> {
    /// It goes on as it is.
    Unguarded(RequestBody<B>),
    /// It is answered without asking the store.
    Refused(Problem),
    /// It is guarded: this is what to claim, and its body.
    Guarded(ClaimRequest, Received),
}

// === enter ===

/// Reads the key, finds out who calls, and reads the body for the fingerprint, in the order of
/// answers that clients rely on: 400 before 413. Nothing is asked of the client's body before the
/// head is known to be good. Dropping the future forgets the request.
pub(crate) async fn enter<B>(gate: &Gate, route: &Arc<Route>, parts: &Parts, body: B) -> Entered<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let from_header = match admit(route, parts) {
        Admission::Unguarded => return Entered::Unguarded(RequestBody::passed(body)),
        Admission::Refused(problem) => return Entered::Refused(problem),
        Admission::Keyed(key, spelling) => Some((key, spelling)),
        Admission::KeyInBody => None,
    };
    let caller = match identify(route, &parts.headers) {
        Ok(caller) => caller,
        Err(problem) => return Entered::Refused(problem),
    };
    if let Err(problem) = check_length(route, &parts.headers) {
        return Entered::Refused(problem);
    }
    let received = match receive(route, parts, body).await {
        Ok(received) => received,
        Err(error) => return Entered::Refused(refusal(route, &error)),
    };
    let (key, spelling) = match from_header {
        Some(keyed) => keyed,
        None => match key_in_body(route, parts, &received).await {
            Admission::Keyed(key, spelling) => (key, spelling),
            Admission::Refused(problem) => return Entered::Refused(problem),
            Admission::Unguarded | Admission::KeyInBody => return Entered::Unguarded(received.into_body()),
        },
    };
    if caller.is_anonymous {
        gate.observe(&Event::Anonymous);
        warn_of_anonymous_callers(gate, route);
    }
    let request = ClaimRequest {
        id: RecordId::new(caller.scope, key),
        fingerprint: received.fingerprint,
        owner: Some(Owner::random()),
        operation: Operation::new(
            parts.method.as_str(),
            &normalised(requested_uri(&parts.extensions, &parts.uri).path()),
        ),
        spelling,
        policy: Arc::clone(&route.policy),
    };
    if gate.split_scopes.is_split(&request) {
        let (record, route) = (request.id.digest().short(), &*route.name);
        tracing::warn!(record, route, "key seen in two scopes: what names the caller changes between retries");
        gate.observe(&Event::SplitScope);
    }
    Entered::Guarded(request, received)
}

/// Once for each process: they are counted, too.
fn warn_of_anonymous_callers(gate: &Gate, route: &Route) {
    if !gate.is_anonymous_known.load(Ordering::Relaxed) && !gate.is_anonymous_known.swap(true, Ordering::Relaxed) {
        let route = &*route.name;
        tracing::warn!(
            route,
            "callers without an identity share one scope: name what tells them apart, or reject them"
        );
    }
}

async fn key_in_body(route: &Arc<Route>, parts: &Parts, received: &Received) -> Admission {
    let (of, is_gzip) = (Arc::clone(route), is_gzip(&parts.headers));
    match received.read(move |body| admit_body(&of, is_gzip, body)).await {
        Ok(admission) => admission,
        Err(error) => Admission::Refused(refusal(route, &ReceiveError::Spool(error))),
    }
}

fn refusal(route: &Route, error: &ReceiveError) -> Problem {
    match error {
        ReceiveError::TooLarge => Problem::request_too_large(route.max_request_body),
        ReceiveError::Client(error) => {
            tracing::debug!(%error, "request body ended early");
            Problem::request_cut_short()
        }
        ReceiveError::Spool(error) => {
            tracing::error!(%error, "temporary file for a request body failed");
            Problem::overloaded()
        }
    }
}

/// The fingerprint to compare with a record that was made under other rules, as long as those are still known: rules
/// of an earlier configuration, or of another route on which the key was used first. Asked at most once for each request.
pub(crate) async fn under_the_recorded_rules(
    gate: &Gate,
    guarded: &Guarded,
    told: &Told,
    call: (&Parts, &Received),
) -> Option<Fingerprint> {
    let Ok(Claim::RulesChanged { recorded }) = told else { return None };
    let recorded = recorded.rules().filter(|recorded| guarded.request.fingerprint.rules() != Some(recorded))?;
    let routes = gate.routes.load_full();
    let earlier = guarded.route.superseded_rules.iter().filter(|rules| rules.is_in_use());
    let known = earlier.map(|superseded| &superseded.rules).chain(routes.iter().map(|(_, route)| &route.rules));
    let (parts, received) = call;
    let rules = known.into_iter().find(|rules| recorded.ends_with(&rules.digest()))?;
    let fingerprint = received.fingerprint_under(rules, parts).await?;
    (fingerprint.rules() == Some(recorded)).then_some(fingerprint)
}
