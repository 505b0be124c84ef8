//! The layer, and what its services share.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll},
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body::Body;
use oncegate_core::{Operation, Store, Suspicion};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Account, BoxError, Event, Observer, Outcome, RequestBody, ResponseBody, Route, Routes, Unobserved, claim::Ticks,
    execute::upstream_error, flow, local::Local, route::requested_uri, split::SplitScopes, suspect::Suspects,
};

// === types ===

/// Makes repeated requests harmless: one key, one execution, and every repeat is answered for it.
///
/// Put it outside whatever counts or limits executions (a rate limiter in front of it would refuse
/// the repeat of a lost answer) and inside whatever authenticates.
///
/// # Limits
/// Request bodies of guarded requests are read whole (in memory up to 256 KiB, then in a temporary
/// file, 10 MiB at most unless the route says otherwise); everything else streams.
///
/// # Cancellation
/// Once a key is claimed, the inner service runs in a task of its own to its end, whether or not the
/// client still waits. [`Handle::drained`] waits for such tasks.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use axum::{Router, routing::post};
/// use oncegate_core::{Backend, MemoryStore};
/// use oncegate_tower::{IdempotencyLayer, Route, Routes};
///
/// let store = Arc::new(MemoryStore::single_process());
/// let routes = Routes::all(Route::layer("api", Backend::Plain));
/// let app: Router = Router::new()
///     .route("/payments", post(|| async { "paid" }))
///     .layer(IdempotencyLayer::new(store, routes));
/// ```
#[derive(Debug, Clone)]
pub struct IdempotencyLayer {
    gate: Arc<Gate>,
}

/// What all routes of a layer share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who is told what happens; nobody unless said otherwise.
    pub observer: Arc<dyn Observer>,
    /// How long one verb of the store may take before the request gets 503; 2 s unless said otherwise.
    pub store_timeout: Duration,
    /// How many bytes of completed records each process remembers for some seconds; 64 MiB unless
    /// said otherwise, 0 for none.
    pub cache_bytes: u64,
    /// How many repeats may wait at once on routes with `wait`; more get their 409 at once. 1024
    /// unless said otherwise.
    pub waiters_max: usize,
    /// How far apart the same request under two keys is reported ([`Event::Suspected`]); 10 min unless said otherwise,
    /// 0 for never.
    pub suspect_window: Duration,
}

/// The service that [`IdempotencyLayer`] makes.
#[derive(Debug, Clone)]
pub struct Idempotency<S> {
    inner: S,
    gate: Arc<Gate>,
}

/// Reaches into running services from outside: to wait for executions, and to change routes.
#[derive(Debug, Clone)]
pub struct Handle {
    gate: Arc<Gate>,
}

/// What every request of one layer shares.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) routes: ArcSwap<Routes>,
    pub(crate) local: Local,
    pub(crate) split_scopes: SplitScopes,
    pub(crate) suspects: Suspects,
    /// Whether it was said that some callers share a scope.
    pub(crate) is_anonymous_known: AtomicBool,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) executions: TaskTracker,
    pub(crate) waiters: Semaphore,
    pub(crate) ticks: Ticks,
    pub(crate) store_timeout: Duration,
}

// === impl IdempotencyLayer ===

impl IdempotencyLayer {
    /// Guards by these routes, with records in `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, routes: Routes) -> Self {
        Self::with_settings(store, routes, Settings::default())
    }

    /// The same, with other limits or an observer.
    #[must_use]
    pub fn with_settings(store: Arc<dyn Store>, routes: Routes, settings: Settings) -> Self {
        let gate = Gate {
            store,
            routes: ArcSwap::from_pointee(routes),
            local: Local::new(settings.cache_bytes),
            split_scopes: SplitScopes::new(),
            suspects: Suspects::new(settings.suspect_window),
            is_anonymous_known: AtomicBool::new(false),
            observer: settings.observer,
            executions: TaskTracker::new(),
            waiters: Semaphore::new(settings.waiters_max),
            ticks: Ticks::new(),
            store_timeout: settings.store_timeout,
        };
        Self { gate: Arc::new(gate) }
    }

    /// Reaches the services of this layer from outside.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { gate: Arc::clone(&self.gate) }
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            observer: Arc::new(Unobserved),
            store_timeout: Duration::from_secs(2),
            cache_bytes: 64 * 1024 * 1024,
            waiters_max: 1024,
            suspect_window: Suspicion::WINDOW,
        }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Idempotency { inner, gate: Arc::clone(&self.gate) }
    }
}

// === impl Idempotency ===

impl<S, B, RB> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<RB>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    RB: Body<Data = Bytes> + Send + 'static,
    RB::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<RB>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone that stays behind may not be ready; the one that was polled goes.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            let route = gate.route(&request);
            if let Some(account) = request.extensions().get::<Account>() {
                account.note(|entries| entries.route = Some(Arc::clone(&route.name)));
            }
            let answered = flow::answer(&gate, &route, ready, request).await;
            match &answered {
                Ok(response) => gate.answered(&route, response),
                Err(error) => gate.observe(&Event::Failed { route: &route.name, error: upstream_error(error) }),
            }
            answered
        })
    }
}

// === impl Handle ===

impl Handle {
    /// Waits until every execution that was begun has ended, its record stored. Call it after the
    /// last request came in; requests that still come are waited for, too.
    pub async fn drained(&self) {
        self.gate.executions.close();
        self.gate.executions.wait().await;
    }

    /// How many executions have not ended yet.
    #[must_use]
    pub fn executing(&self) -> usize {
        self.gate.executions.len()
    }

    /// The name of the route that a request of this operation takes now.
    #[must_use]
    pub fn route_name(&self, operation: &Operation) -> Arc<str> {
        let routes = self.gate.routes.load();
        let (method, path) = operation.as_str().split_once(' ').unwrap_or_default();
        let parsed = Method::from_bytes(method.as_bytes()).ok().zip(path.parse::<Uri>().ok());
        // Paths that were cut, or hold what no URI holds, are those of no route that somebody wrote.
        let (method, uri) = parsed.unwrap_or_default();
        Arc::clone(&routes.find(&method, &uri).name)
    }

    /// Replaces the routes for all requests that come from now on; see [`Routes::succeeding`].
    pub fn set_routes(&self, routes: Routes) {
        let routes = routes.succeeding(&self.gate.routes.load());
        self.gate.routes.store(Arc::new(routes));
    }
}

// === impl Gate ===

impl Gate {
    pub(crate) fn observe(&self, event: &Event<'_>) {
        self.observer.observe(event);
    }

    fn route<B>(&self, request: &Request<B>) -> Arc<Route> {
        Arc::clone(self.routes.load().find(request.method(), requested_uri(request.extensions(), request.uri())))
    }

    fn answered<B>(&self, route: &Route, response: &Response<B>) {
        let (outcome, status) = (Outcome::of(response), response.status().as_u16());
        self.observe(&Event::Answered { route: &route.name, outcome, status });
    }
}
