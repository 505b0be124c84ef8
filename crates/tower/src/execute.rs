//! execute: one call of the inner service under a lease, and what follows from its end.

use std::{any::Any, future::Future, marker::PhantomData, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request::Parts};
use http_body::Body;
use oncegate_core::{Disposition, DoubtReason, IdempotencyKey, Lease, OnAbandoned, Timestamp};
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    BoxError, Event, Outcome, Problem, RequestBody, ResponseBody, Route, UpstreamError, UpstreamErrorKind,
    claim::Guarded,
    crash,
    layer::Gate,
    local::Turn,
    problem::{PROBLEM_HEADER, ProblemKind},
    receive::Received,
    replay,
    reply::Reply,
    route::KeySource,
    settle::Settlement,
};

mod extend;

// === headers to the inner service ===

/// The record id: the same for every attempt.
pub const RECORD: HeaderName = HeaderName::from_static("oncegate-record");
/// The fence of this attempt.
pub const FENCE: HeaderName = HeaderName::from_static("oncegate-fence");
/// 1 for the first execution, one more with every takeover.
pub const ATTEMPT: HeaderName = HeaderName::from_static("oncegate-attempt");
/// [`Route::upstream_secret`](crate::Route::upstream_secret), where there is one.
pub const SECRET: HeaderName = HeaderName::from_static("oncegate-secret");

// === types ===

/// A request that is ready to be sent to the inner service.
pub(crate) struct Call<S, B> {
    pub(crate) inner: S,
    pub(crate) parts: Parts,
    pub(crate) received: Received,
    pub(crate) body: PhantomData<fn(B)>,
}

/// An execution under a lease. Its end, also by a panic, ends the turn in this process.
pub(crate) struct Execution {
    pub(crate) gate: Arc<Gate>,
    pub(crate) turn: Turn,
    pub(crate) guarded: Guarded,
    pub(crate) lease: Lease,
    pub(crate) asked: Instant,
}

/// What a handler may know of the lease under which it runs; in the extensions of its request.
///
/// On a route that is declared [`Transactional`](oncegate_core::Backend::Transactional) the handler completes the record
/// under this lease, in the transaction of its effect (`complete_in` of `oncegate-store`, or `oncegate.complete` in SQL),
/// commits, and answers with the response that it has stored. The layer then writes nothing. If the answer is lost after
/// the commit, says something else, or comes from an attempt that was taken over, the layer answers what the record says.
#[derive(Debug, Clone)]
pub struct CurrentLease {
    /// The client's key: forward it to services that dedupe it themselves.
    pub key: IdempotencyKey,
    /// Record, fence and attempt.
    pub lease: Lease,
}

/// Why a call brought no response.
enum Failure<E> {
    Error(E),
    Panicked,
}

// === impl Execution ===

impl Execution {
    /// Removes the headers that only we may send, so that no client can imitate us.
    pub(crate) fn remove_copies(headers: &mut HeaderMap) {
        // Hardly any request has one, so this list hardly ever allocates.
        let copies: Vec<_> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
        for name in copies {
            headers.remove(name);
        }
    }

    /// Calls the inner service, settles the record and answers, for as long as the lease is ours.
    /// When an extension is refused, the work is dropped and the record speaks for itself.
    pub(crate) async fn run<S, B, RB>(self, call: Call<S, B>, mut reply: Reply<S, B, RB, S::Error>)
    where
        S: Service<Request<RequestBody<B>>, Response = Response<RB>>,
        S::Error: 'static,
        RB: Body<Data = Bytes> + Send,
        RB::Error: Into<BoxError>,
    {
        let is_ours = tokio::select! {
            () = self.execute(call, &mut reply) => true,
            () = self.extend_until_refused() => false,
        };
        if !is_ours && !reply.is_sent() {
            let response = self.answer_of_the_record().await;
            reply.send(&self.gate, Ok(response));
        }
    }

    async fn execute<S, B, RB>(&self, call: Call<S, B>, reply: &mut Reply<S, B, RB, S::Error>)
    where
        S: Service<Request<RequestBody<B>>, Response = Response<RB>>,
        S::Error: 'static,
        RB: Body<Data = Bytes> + Send,
        RB::Error: Into<BoxError>,
    {
        let called = Instant::now();
        crash::point("claimed");
        let response = match caught(crash::during("dispatched", call.under(self))).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure, reply).await,
        };
        let duration = called.elapsed();
        self.guarded.note(|entries| entries.upstream = Some(duration));
        self.gate.observe(&Event::Executed { route: &self.guarded.route.name, duration });
        crash::point("head_received");
        let disposition = self.disposition(&response);
        if disposition != Disposition::Release && !response.status().is_client_error() {
            self.suspect();
        }
        let settlement = match disposition {
            Disposition::Store => return self.complete(response, reply).await,
            Disposition::Release => Some(Settlement::Release),
            Disposition::Ambiguous => self.lost(DoubtReason::status(response.status().as_u16())),
        };
        let mut response = response.map(ResponseBody::passed);
        response.extensions_mut().insert(Outcome::Executed);
        self.settle_and_answer(settlement, reply, Ok(response)).await;
    }

    /// No response came.
    async fn fail<S, B, RB, E: 'static>(&self, failure: Failure<E>, reply: &mut Reply<S, B, RB, E>) {
        let kind = failure.kind();
        if kind != Some(UpstreamErrorKind::Unreachable) {
            self.suspect();
        }
        let settlement = match kind {
            Some(UpstreamErrorKind::Unreachable) => Some(Settlement::Release),
            Some(UpstreamErrorKind::Timeout) => self.lost(DoubtReason::TIMEOUT),
            Some(UpstreamErrorKind::Failed) => self.lost(DoubtReason::RESET),
            None => self.lost(DoubtReason::HANDLER_FAILED),
        };
        let is_doubted = matches!(settlement, Some(Settlement::Doubt(_)));
        let answered = match (failure, kind) {
            (Failure::Error(error), None) => Err(error),
            (Failure::Error(_), Some(kind)) => Ok(Problem::upstream(kind, is_doubted).into_response()),
            (Failure::Panicked, _) => Ok(Problem::upstream(UpstreamErrorKind::Failed, is_doubted).into_response()),
        };
        self.settle_and_answer(settlement, reply, answered).await;
    }

    /// It may have had its effect: has the same request had it under another key? What was refused or given back is no
    /// reason to suspect a client that tries again.
    fn suspect(&self) {
        if let Some(suspicion) = self.gate.suspects.note(&self.guarded.request, &self.lease) {
            self.gate.observe(&Event::Suspected { suspicion: &suspicion });
        }
    }

    fn disposition<RB>(&self, response: &Response<RB>) -> Disposition {
        match response.headers().get(PROBLEM_HEADER).map(HeaderValue::as_bytes) {
            // A guard behind us answers for itself. Unless it lost an outcome, this attempt executed
            // nothing; and its word about its own record must never become ours.
            Some(name) => {
                let lost = [ProblemKind::UpstreamFailed, ProblemKind::UpstreamTimeout];
                match lost.iter().any(|kind| kind.name().as_bytes() == name) {
                    true => Disposition::Ambiguous,
                    false => Disposition::Release,
                }
            }
            None => self.guarded.route.policy.disposition(response.status().as_u16()),
        }
    }

    /// The outcome was lost. Before a backend that a repeat may ask again, the lease is left to end,
    /// and is not extended any more.
    pub(crate) fn lost(&self, reason: DoubtReason) -> Option<Settlement> {
        match self.guarded.route.policy.on_abandoned {
            OnAbandoned::Unknown => Some(Settlement::Doubt(reason)),
            OnAbandoned::Takeover => None,
        }
    }

    /// The store's time, as far as it is known here: from the record's birth on, on a monotonic
    /// clock. After a takeover it lags by the age of the first attempt, to the safe side.
    pub(crate) fn now(&self) -> Timestamp {
        self.lease.created_at.after(self.asked.elapsed())
    }
}

// === impl Call ===

impl<S, B> Call<S, B> {
    /// Calls the inner service, with what it may know of its lease.
    async fn under<RB>(self, execution: &Execution) -> Result<Response<RB>, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<RB>>,
    {
        let Self { mut inner, mut parts, received, .. } = self;
        let Lease { record, fence, attempt, spelling, .. } = &execution.lease;
        let headers = &mut parts.headers;
        headers.insert(RECORD, ascii(&record.to_string()));
        headers.insert(FENCE, HeaderValue::from(fence.get()));
        headers.insert(ATTEMPT, HeaderValue::from(*attempt));
        if let Some(secret) = &execution.guarded.route.upstream_secret {
            headers.insert(SECRET, secret.clone());
        }
        // The inner service's own guard may take `"k"` and `k` for two keys.
        if let KeySource::Header(name) = &execution.guarded.route.key
            && *spelling != execution.guarded.request.spelling
        {
            headers.insert(name, ascii(&execution.guarded.request.id.key().to_header(*spelling)));
        }
        parts
            .extensions
            .insert(CurrentLease { key: execution.guarded.request.id.key().clone(), lease: execution.lease.clone() });
        inner.call(Request::from_parts(parts, received.into_body().on(&execution.guarded.route))).await
    }

    /// Calls the inner service without a guard, because the store is down and the route says so.
    pub(crate) async fn unguarded<RB>(
        self,
        gate: &Gate,
        route: &Arc<Route>,
    ) -> Result<Response<ResponseBody<RB>>, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<RB>>,
        S::Error: 'static,
    {
        gate.observe(&Event::FailedOpen);
        let Self { inner, parts, received, .. } = self;
        let is_idempotent = parts.method.is_idempotent();
        let answered = pass(inner, Request::from_parts(parts, received.into_body().on(route))).await;
        let mut response = match answered.map_err(|error| (upstream_error_kind(&error), error)) {
            Ok(response) => response,
            Err((Some(kind), _)) => Problem::upstream_unguarded(kind, is_idempotent).into_response(),
            Err((None, error)) => return Err(error),
        };
        response.headers_mut().insert(replay::FAILED_OPEN, HeaderValue::from_static("true"));
        Ok(response)
    }
}

/// Calls the inner service with a request that is not guarded.
pub(crate) async fn pass<S, B, RB>(
    mut inner: S,
    request: Request<RequestBody<B>>,
) -> Result<Response<ResponseBody<RB>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<RB>>,
{
    Ok(inner.call(request).await?.map(ResponseBody::passed))
}

/// A panic of the inner service is a failure like any other: it must not take the settlement along.
async fn caught<T, E>(call: impl Future<Output = Result<T, E>>) -> Result<T, Failure<E>> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(Failure::Error(error)),
        Err(_) => Err(Failure::Panicked),
    }
}

/// Whether it is a header that only we may send, in any spelling that a service may take for one: behind CGI and WSGI
/// names become variables, in which `-`, `_` and all else that is neither letter nor digit are the same.
fn is_ours(name: &HeaderName) -> bool {
    let folded = || name.as_str().bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'-' });
    name.as_str().starts_with("oncegate")
        && [RECORD, FENCE, ATTEMPT, SECRET].iter().any(|own| folded().eq(own.as_str().bytes()))
}

fn ascii(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("record digests and keys are visible ASCII")
}

// === impl Failure ===

impl<E: 'static> Failure<E> {
    /// How far the call got, if the error says so.
    fn kind(&self) -> Option<UpstreamErrorKind> {
        let Self::Error(error) = self else { return None };
        upstream_error_kind(error)
    }
}

/// How far a call got, if its error says so.
pub(crate) fn upstream_error_kind(error: &dyn Any) -> Option<UpstreamErrorKind> {
    upstream_error(error).map(UpstreamError::kind)
}

/// The error that says how far a call got, boxed or not.
pub(crate) fn upstream_error(error: &dyn Any) -> Option<&UpstreamError> {
    let boxed = || error.downcast_ref::<BoxError>()?.downcast_ref::<UpstreamError>();
    error.downcast_ref::<UpstreamError>().or_else(boxed)
}
