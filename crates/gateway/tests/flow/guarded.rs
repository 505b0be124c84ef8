//! A service under the layer, whose every step lets others run.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use oncegate_core::{Filter, IdempotencyKey, MemoryStore, Record, Store};
use oncegate_store::sqlite::{Options, SqliteStore};
use oncegate_tower::{
    BoxError, Handle, Idempotency, IdempotencyLayer, RequestBody, Route, Routes, Settings, UpstreamError,
    UpstreamErrorKind,
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

/// A store, for one point after the other: each has a key of its own.
pub(crate) struct Records {
    store: Arc<dyn Store>,
    keys: AtomicUsize,
    _directory: TempDir,
}

/// The layer, its store and its service, for one key.
pub(crate) struct Guarded {
    pub(crate) service: Idempotency<Inner>,
    pub(crate) handle: Handle,
    executions: Arc<AtomicUsize>,
    store: Arc<dyn Store>,
    key: IdempotencyKey,
}

// === impl Records ===

impl Records {
    pub(crate) fn new(kind: Kind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match kind {
            Kind::Memory => Arc::new(MemoryStore::single_process()),
            Kind::Sqlite => Arc::new(SqliteStore::open(directory.path().join("db"), Options::default()).unwrap()),
        };
        Self { store, keys: AtomicUsize::new(0), _directory: directory }
    }
}

// === impl Guarded ===

impl Guarded {
    /// A layer that knows nothing yet, and a key that is new.
    pub(crate) fn new(records: &Records, route: Route, ending: Ending) -> Self {
        let store = Arc::clone(&records.store);
        // A busy machine is no store that is down.
        let settings = Settings { store_timeout: Duration::from_secs(20), ..Settings::default() };
        let stuttering = Arc::new(Stutter(Arc::clone(&store)));
        let layer = IdempotencyLayer::with_settings(stuttering, Routes::all(route), settings);
        let executions = Arc::new(AtomicUsize::new(0));
        let service = layer.layer(Inner { ending, executions: Arc::clone(&executions) });
        let key = format!("k{}", records.keys.fetch_add(1, Ordering::SeqCst));
        Self { service, handle: layer.handle(), executions, store, key: IdempotencyKey::new(&key).unwrap() }
    }

    pub(crate) fn executions(&self) -> usize {
        self.executions.load(Ordering::SeqCst)
    }

    /// The key's record.
    pub(crate) async fn record(&self) -> Option<Record> {
        let filter = Filter { key: Some(self.key.clone()), ..Filter::default() };
        self.store.list(&filter).await.unwrap().pop()
    }

    /// A request whose body comes in parts, between which others run, and its answer, read as far as it comes.
    pub(crate) fn post(&self, parts: &[Bytes]) -> impl Future<Output = Answer> + use<> {
        let request = Request::post("/payments").header("idempotency-key", self.key.as_str());
        let request = request.header("authorization", "Bearer A").body(slow_body(parts.to_vec(), false)).unwrap();
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
