//! A service under the layer, whose every step lets others run.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use oncegate_core::{Filter, MemoryStore, Record, Store};
use oncegate_store::sqlite::{Options, SqliteStore};
use oncegate_tower::{
    BoxError, Handle, Idempotency, IdempotencyLayer, RequestBody, Route, Routes, UpstreamError, UpstreamErrorKind,
};
use tempfile::TempDir;
use tokio::task::yield_now;
use tower::Layer;
use tower_service::Service;

use crate::stutter::Stutter;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Which store keeps the records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

/// How an execution ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// 201 and a short body.
    Whole,
    /// 200 and a body in parts, longer than what is answered with its head.
    Streamed,
    /// The same, which breaks off.
    Cut,
    /// 503.
    Refused,
    /// The connection is lost after the request was sent.
    Lost,
    /// The handler panics.
    Panic,
}

#[derive(Debug, Clone)]
pub(crate) struct Inner {
    ending: Ending,
    executions: Arc<AtomicUsize>,
}

/// The layer, its store and its service.
pub(crate) struct Guarded {
    pub(crate) service: Idempotency<Inner>,
    pub(crate) handle: Handle,
    executions: Arc<AtomicUsize>,
    store: Arc<dyn Store>,
    _directory: TempDir,
}

// === impl Guarded ===

impl Guarded {
    pub(crate) fn new(kind: Kind, route: Route, ending: Ending) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match kind {
            Kind::Memory => Arc::new(MemoryStore::single_process()),
            Kind::Sqlite => Arc::new(SqliteStore::open(directory.path().join("db"), Options::default()).unwrap()),
        };
        let layer = IdempotencyLayer::new(Arc::new(Stutter(Arc::clone(&store))), Routes::all(route));
        let executions = Arc::new(AtomicUsize::new(0));
        let service = layer.layer(Inner { ending, executions: Arc::clone(&executions) });
        Self { service, handle: layer.handle(), executions, store, _directory: directory }
    }

    pub(crate) fn executions(&self) -> usize {
        self.executions.load(Ordering::SeqCst)
    }

    /// All living records.
    pub(crate) async fn records(&self) -> Vec<Record> {
        self.store.list(&Filter::default()).await.unwrap()
    }

    /// A request and its answer, read to its end: status, whether it is a replay, and the body if it is whole.
    pub(crate) fn exchange(&self, request: Request<Body>) -> impl Future<Output = Answer> + use<> {
        let answering = self.service.clone().call(request);
        async {
            let Ok(response) = answering.await else { return Answer::default() };
            let (parts, body) = response.into_parts();
            let body = body.collect().await.ok().map(|body| body.to_bytes());
            let is_replay = parts.headers.contains_key("idempotent-replayed");
            let problem = parts.headers.get("oncegate-problem").map(|name| name.to_str().unwrap().to_owned());
            Answer { status: parts.status.as_u16(), is_replay, problem, body }
        }
    }
}

/// An answer, read as far as it came; the default is an error of the service itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) is_replay: bool,
    pub(crate) problem: Option<String>,
    pub(crate) body: Option<Bytes>,
}

/// A request whose body comes in parts, between which others run.
pub(crate) fn post(parts: Vec<Bytes>) -> Request<Body> {
    let request = Request::post("/payments").header("idempotency-key", "k").header("authorization", "Bearer A");
    request.body(slow_body(parts, false)).unwrap()
}

/// Yields before each part, and before its end.
fn slow_body(parts: Vec<Bytes>, is_cut: bool) -> Body {
    let frames = stream::unfold((parts.into_iter(), is_cut), |(mut parts, is_cut)| async move {
        yield_now().await;
        match parts.next() {
            Some(part) => Some((Ok(Frame::data(part)), (parts, is_cut))),
            None if is_cut => Some((Err(io::Error::other("breaks off")), (parts, false))),
            None => None,
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

// === impl Inner ===

impl Service<Request<RequestBody<Body>>> for Inner {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Body>>) -> Self::Future {
        let Self { ending, executions } = self.clone();
        Box::pin(async move {
            request.into_body().collect().await?;
            executions.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
            // More than is held for a head that waits.
            let parts = || vec![Bytes::from(vec![b'x'; 50_000]); 3];
            let (status, body) = match ending {
                Ending::Whole => (201, slow_body(vec!["pa".into(), "id".into()], false)),
                Ending::Streamed => (200, slow_body(parts(), false)),
                Ending::Cut => (200, slow_body(parts(), true)),
                Ending::Refused => (503, slow_body(Vec::new(), false)),
                Ending::Lost => return Err(UpstreamError::new(UpstreamErrorKind::Failed, "reset").into()),
                Ending::Panic => panic!("the handler panics"),
            };
            let mut response = Response::new(body);
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            Ok(response)
        })
    }
}
