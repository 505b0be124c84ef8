//! A service under the layer, whose every call the test answers by hand, before a store whose verbs
//! the test can hold up or break.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, Clock, DoubtReason, ErrorKind, Filter, Lease, MemoryStore, Note, Owner,
    Reaped, Record, RecordDigest, Seen, Store, StoreError, StoredResponse, Timestamp, Written,
};
use oncegate_tower::{
    BoxError, Event, Handle, Idempotency, IdempotencyLayer, Observer, Outcome, RequestBody, ResponseBody, Route,
    Routes, Settings,
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tower_layer::Layer;
use tower_service::Service;

// === the inner service ===

pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;
type Answered = Result<Response<Body>, BoxError>;

/// The service that is called; it hands each call to the test.
#[derive(Clone)]
pub(crate) struct Scripted {
    calls: mpsc::UnboundedSender<Call>,
    count: Arc<AtomicUsize>,
}

/// One execution, for the test to answer.
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    pub(crate) extensions: http::Extensions,
    pub(crate) body: Bytes,
    answer: oneshot::Sender<Answered>,
}

impl Service<Request<RequestBody<Full<Bytes>>>> for Scripted {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Full<Bytes>>>) -> Self::Future {
        self.count.fetch_add(1, Ordering::SeqCst);
        let calls = self.calls.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let (answer, answered) = oneshot::channel();
            let call = Call { headers: parts.headers, extensions: parts.extensions, body, answer };
            calls.send(call).map_err(|_| "the test is over")?;
            answered.await.unwrap_or_else(|_| panic!("the handler panics"))
        })
    }
}

impl Call {
    pub(crate) fn answer(self, response: Response<Body>) {
        self.answer.send(Ok(response)).ok();
    }

    pub(crate) fn fail(self, error: impl Into<BoxError>) {
        self.answer.send(Err(error.into())).ok();
    }

    /// The handler panics.
    pub(crate) fn panic(self) {
        drop(self.answer);
    }

    /// The layer has dropped the call.
    pub(crate) async fn is_dropped(&mut self) {
        tokio::time::timeout(Duration::from_secs(60), self.answer.closed()).await.expect("the call goes on");
    }
}

pub(crate) fn created(body: &'static str) -> Response<Body> {
    status(201, body)
}

pub(crate) fn status(status: u16, body: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::from(body).map_err(|never: Infallible| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// A body that the test sends part by part; dropping the sender ends it.
pub(crate) fn streamed() -> (mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>, Response<Body>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let frames = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver);
    (sender, Response::new(StreamBody::new(frames).boxed_unsync()))
}

pub(crate) fn part(text: &'static str) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

// === the gate ===

pub(crate) struct Gate {
    pub(crate) service: Idempotency<Scripted>,
    pub(crate) store: Arc<ScriptedStore>,
    pub(crate) handle: Handle,
    pub(crate) events: Arc<Events>,
    calls: mpsc::UnboundedReceiver<Call>,
    count: Arc<AtomicUsize>,
}

pub(crate) type Answer = Result<Response<ResponseBody<Body>>, BoxError>;

impl Gate {
    pub(crate) fn new(route: Route) -> Self {
        Self::before(Arc::new(ScriptedStore::default()), route)
    }

    /// Another process before the same store.
    pub(crate) fn before(store: Arc<ScriptedStore>, route: Route) -> Self {
        Self::with_routes(store, Routes::all(route), Settings::default())
    }

    /// The same, with several routes or other limits.
    pub(crate) fn with_routes(store: Arc<ScriptedStore>, routes: Routes, settings: Settings) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicUsize::new(0));
        let events = Arc::new(Events::default());
        let settings = Settings { observer: Arc::clone(&events) as Arc<dyn Observer>, ..settings };
        let layer = IdempotencyLayer::with_settings(Arc::clone(&store) as Arc<dyn Store>, routes, settings);
        let service = layer.layer(Scripted { calls: sender, count: Arc::clone(&count) });
        Self { service, store, handle: layer.handle(), events, calls, count }
    }

    /// Sends a request in a task of its own; aborting the task is a client that leaves.
    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(self.call(request))
    }

    pub(crate) fn call(&self, request: Request<Full<Bytes>>) -> impl Future<Output = Answer> + Send + 'static {
        self.service.clone().call(request)
    }

    /// The next execution. With paused time the wait for one that never comes ends at once.
    pub(crate) async fn next_call(&mut self) -> Call {
        tokio::time::timeout(Duration::from_secs(60), self.calls.recv()).await.expect("nothing executes").unwrap()
    }

    /// Answers whatever executes at this moment.
    pub(crate) fn answer_calls(&mut self, response: impl Fn() -> Response<Body>) {
        while let Ok(call) = self.calls.try_recv() {
            call.answer(response());
        }
    }

    /// How often the inner service was called.
    pub(crate) fn executions(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Sends a request whose execution, if there is one, is answered with `response`.
    pub(crate) async fn exchange(&mut self, request: Request<Full<Bytes>>, response: Response<Body>) -> Whole {
        let mut answer = self.send(request);
        tokio::select! {
            call = self.next_call() => call.answer(response),
            answer = &mut answer => return Whole::of(answer.unwrap()).await,
        }
        Whole::of(answer.await.unwrap()).await
    }

    /// Sends a request that must be answered without an execution.
    pub(crate) async fn repeat(&mut self, request: Request<Full<Bytes>>) -> Whole {
        let before = self.executions();
        let answered = tokio::time::timeout(Duration::from_secs(60), self.call(request)).await;
        let whole = Whole::of(answered.expect("a repeat waits for an execution")).await;
        assert_eq!(self.executions(), before, "a repeat was executed");
        whole
    }
}

pub(crate) fn route() -> Route {
    Route::gateway("payments", oncegate_core::Backend::Plain)
}

pub(crate) fn idempotent() -> Route {
    Route::gateway("payments", oncegate_core::Backend::Idempotent)
}

pub(crate) fn post(key: &str, body: &'static str) -> Request<Full<Bytes>> {
    let request = Request::post("/payments").header("idempotency-key", key).header("authorization", "Bearer A");
    request.header("content-type", "application/json").body(Full::from(body)).unwrap()
}

// === answers ===

/// An answer read to its end.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) outcome: Outcome,
}

impl Whole {
    pub(crate) async fn of(answer: Answer) -> Self {
        let (parts, body) = answer.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let outcome = parts.extensions.get().copied().unwrap_or(Outcome::Bypassed);
        Self { status: parts.status.as_u16(), headers: parts.headers, body, outcome }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.outcome == Outcome::Replayed && self.header("idempotent-replayed") == Some("true")
    }

    /// Asserts that this is our own answer, and returns its document.
    pub(crate) fn problem(&self, status: u16, name: &str) -> Value {
        let document: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!((self.status, self.header("oncegate-problem")), (status, Some(name)), "{document}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(document["type"], format!("/.well-known/idempotency/problems/{name}"));
        document
    }
}

// === the store ===

/// tokio's clock, so that paused time moves leases and timers alike.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).after(self.0.elapsed())
    }
}

/// What happens to a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails and is not applied.
    Before,
    /// It is applied, and its reply is lost.
    After,
    /// It hangs and is not applied.
    Hangs,
    /// Too much is queued, and it is not applied.
    Overloaded,
    /// The store cannot be reached, and knows that it was not applied.
    Unreachable,
}

/// A [`MemoryStore`] whose verbs the test counts, breaks or holds up.
#[derive(Debug)]
pub(crate) struct ScriptedStore {
    pub(crate) records: MemoryStore,
    counts: Mutex<HashMap<&'static str, usize>>,
    faults: Mutex<HashMap<&'static str, Fault>>,
    held: watch::Sender<Option<&'static str>>,
}

impl Default for ScriptedStore {
    fn default() -> Self {
        Self {
            records: MemoryStore::with_clock(TokioClock(Instant::now())),
            counts: Mutex::default(),
            faults: Mutex::default(),
            held: watch::channel(None).0,
        }
    }
}

impl ScriptedStore {
    pub(crate) fn count(&self, verb: &'static str) -> usize {
        self.counts.lock().unwrap().get(verb).copied().unwrap_or(0)
    }

    /// From now on this happens to the verb.
    pub(crate) fn fault(&self, verb: &'static str, fault: Option<Fault>) {
        let mut faults = self.faults.lock().unwrap();
        match fault {
            Some(fault) => faults.insert(verb, fault),
            None => faults.remove(verb),
        };
    }

    /// Holds the verb up until `hold(None)`.
    pub(crate) fn hold(&self, verb: Option<&'static str>) {
        self.held.send_replace(verb);
    }

    async fn run<T>(
        &self,
        verb: &'static str,
        applied: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        *self.counts.lock().unwrap().entry(verb).or_default() += 1;
        self.held.subscribe().wait_for(|held| *held != Some(verb)).await.unwrap();
        let fault = self.faults.lock().unwrap().get(verb).copied();
        let broken = || StoreError::new(ErrorKind::Unavailable, "the test broke it");
        match fault {
            None => applied.await,
            Some(Fault::Before) => Err(broken()),
            Some(Fault::After) => applied.await.and(Err(broken())),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Overloaded) => Err(StoreError::new(ErrorKind::Overloaded, "the test queued too much")),
            Some(Fault::Unreachable) => Err(broken().unapplied()),
        }
    }
}

#[async_trait]
impl Store for ScriptedStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.run("claim", self.records.claim(request)).await
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.run("extend", self.records.extend(lease, length)).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        self.run("complete", self.records.complete(lease, response)).await
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.run("doubt", self.records.doubt(lease, reason)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.run("release", self.records.release(lease)).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        self.run("withdraw", self.records.withdraw(record, owner)).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.run("get", self.records.get(record)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.run("list", self.records.list(filter)).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.run("resolve", self.records.resolve(seen, response, note)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.run("purge", self.records.purge(seen, note)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.run("audit", self.records.audit(rows)).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        self.run("reap", self.records.reap(rows)).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.run("census", self.records.census()).await
    }
}

impl ScriptedStore {
    /// The one record that there is.
    pub(crate) async fn record(&self) -> Record {
        let mut records = self.records.list(&Filter::default()).await.unwrap();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    pub(crate) async fn is_empty(&self) -> bool {
        self.records.list(&Filter::default()).await.unwrap().is_empty()
    }

    /// An operator's hand.
    pub(crate) async fn purge_by_force(&self) {
        let record = self.record().await;
        let note = Note::new("ada", "the test says so").unwrap().with_force(true);
        let purged = self.records.purge(Seen::of(&record), &note).await;
        assert_eq!(purged.unwrap(), Written::Done);
    }
}

// === events ===

/// Counts what the layer reports, by the event's name.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<HashMap<String, usize>>);

impl Events {
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

impl Observer for Events {
    fn observe(&self, event: &Event<'_>) {
        let text = format!("{event:?}");
        let name = text.split([' ', '{']).next().unwrap_or_default().to_owned();
        *self.0.lock().unwrap().entry(name).or_default() += 1;
    }
}
