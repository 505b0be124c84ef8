//! Where a request enters and its response leaves.

use std::{error::Error, future::poll_fn, net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body::Body;
use hyper::body::Incoming;
use oncegate_tower::{BoxError, Outcome, Problem, ResponseBody, UpstreamError, UpstreamErrorKind};
use tower_service::Service;

use super::{
    accept::AcceptSettings,
    client_body::{ClientBody, ClientBodyError, Expectation, Unread},
    fields::Fields,
    forwarded::Forwarded,
    protected::ProtectedHeaders,
    refusal::Refusal,
    request_head,
};
use crate::access_log::AccessLog;

/// What the requests of one connection have in common.
#[derive(Debug)]
pub(super) struct Edge {
    forwarded: Forwarded,
    idle_timeout: Duration,
    protected: ProtectedHeaders,
    access_log: Option<AccessLog>,
}

// === impl Edge ===

impl Edge {
    pub(super) fn new(client: IpAddr, settings: &AcceptSettings) -> Self {
        let AcceptSettings { idle_timeout, protected, access_log, .. } = settings.clone();
        Self { forwarded: Forwarded::new(client), idle_timeout, protected, access_log }
    }

    /// Answers, and says so in the log.
    pub(super) async fn answer<S, B>(&self, service: S, mut request: Request<Incoming>) -> Response<ResponseBody<B>>
    where
        S: Service<Request<ClientBody>, Response = Response<ResponseBody<B>>>,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes>,
    {
        let Some(log) = &self.access_log else { return self.answer_by(service, request).await };
        // Dropped with this future, it says that the client left.
        let entry = log.enter(&mut request);
        let response = self.answer_by(service, request).await;
        entry.answered(&response);
        response
    }

    /// Applies the rules, lets `service` answer, and makes an answer of its error.
    async fn answer_by<S, B>(&self, mut service: S, mut request: Request<Incoming>) -> Response<ResponseBody<B>>
    where
        S: Service<Request<ClientBody>, Response = Response<ResponseBody<B>>>,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes>,
    {
        let fields = Fields::of(request.headers());
        let is_idempotent = request.method().is_idempotent();
        let expectation = if fields.expect { take_expectation(&mut request) } else { None };
        let prepared = request_head::prepare(&mut request, fields, &self.forwarded, &self.protected);
        let unread = if request.version() == Version::HTTP_2 { Unread::Drop } else { Unread::Drain };
        let request = request.map(|body| ClientBody::new(body, self.idle_timeout, unread, expectation.clone()));
        if let Err(refusal) = prepared {
            return refusal.into_response();
        }
        let failed = |error: S::Error| Failed::by(&*error.into()).into_response(is_idempotent);
        if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
            return failed(error);
        }
        let mut response = service.call(request).await.unwrap_or_else(failed);
        // The client may send its body or not: where nobody asked for it, nobody knows where the next request begins.
        if expectation.is_some_and(|expectation| !expectation.is_met()) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Takes `Expect: 100-continue` out of the head; [`Upstream`](super::Upstream) puts it back in where the upstream can
/// still decide, which is where nobody has read the body. Only HTTP/1.1 can be told to continue.
fn take_expectation(request: &mut Request<Incoming>) -> Option<Expectation> {
    let expect = request.headers().get(header::EXPECT)?;
    if !expect.as_bytes().eq_ignore_ascii_case(b"100-continue") {
        return None;
    }
    request.headers_mut().remove(header::EXPECT);
    if request.version() != Version::HTTP_11 || request.body().is_end_stream() {
        return None;
    }
    let expectation = Expectation::default();
    request.extensions_mut().insert(expectation.clone());
    Some(expectation)
}

/// Why there is no answer of a service: the error of an unguarded request comes out of the stack as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failed {
    Client(Refusal),
    Upstream(UpstreamErrorKind),
}

impl Failed {
    pub(crate) fn by(error: &(dyn Error + 'static)) -> Self {
        match causes(error).find_map(|cause| cause.downcast_ref::<ClientBodyError>()) {
            Some(ClientBodyError::Idle(_)) => return Self::Client(Refusal::BodyIdle),
            Some(ClientBodyError::Cut(_)) => return Self::Client(Refusal::BodyCut),
            None => {}
        }
        let kind = error.downcast_ref::<UpstreamError>().map_or(UpstreamErrorKind::Failed, UpstreamError::kind);
        tracing::debug!(error, ?kind, "request failed");
        Self::Upstream(kind)
    }

    /// What clients are answered.
    fn into_response<B>(self, is_idempotent: bool) -> Response<ResponseBody<B>> {
        match self {
            Self::Client(refusal) => refusal.into_response(),
            Self::Upstream(kind) => Problem::upstream_unguarded(kind, is_idempotent).into_response(),
        }
    }

    /// How it is counted.
    pub(crate) fn counted(self) -> (Outcome, u16) {
        let response: Response<ResponseBody<http_body_util::Empty<Bytes>>> = self.into_response(true);
        (Outcome::of(&response), response.status().as_u16())
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
