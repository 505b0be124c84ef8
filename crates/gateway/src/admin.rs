//! The admin listener: whether the process lives, whether it is ready, what it counts, and the operators' verbs.

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{Html, IntoResponse, Response},
    routing::{any, get},
};
use http::{HeaderMap, StatusCode, header};
use oncegate_tower::Handle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Token,
    metrics::{self, Metrics},
    records::desk::Desk,
    serve::{
        health::Health,
        reload::{LastReload, Parts},
    },
};

mod api;

// === types ===

/// What the admin listener tells about.
#[derive(Debug)]
pub(crate) struct Admin {
    /// What callers must show; everybody is answered without one.
    token: SharedToken,
    /// What `/readyz` answers from.
    health: Arc<Health>,
    /// What `/metrics` answers from.
    metrics: Arc<Metrics>,
    /// Knows how many executions there are now.
    executions: Handle,
    /// Whether what is in force is what was written last.
    last_reload: Arc<LastReload>,
    /// What `/api` works on.
    desk: Desk,
}

/// The token that holds now, if any; clones share it, so that a reload reaches the listener.
#[derive(Debug, Clone)]
pub(crate) struct SharedToken(Arc<ArcSwapOption<Token>>);

const PAGE: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>oncegate</title>
<h1>oncegate</h1>
<ul>
<li><a href=\"/healthz\">/healthz</a>: the process lives
<li><a href=\"/readyz\">/readyz</a>: the store can be read and written, and nothing drains
<li><a href=\"/metrics\">/metrics</a>: what is counted, for Prometheus
<li><a href=\"/api/records\">/api/records</a>, <a href=\"/api/audit\">/api/audit</a>: what operators see and did
<li><a href=\"/api/reload\">/api/reload</a>: how the last reload of the configuration ended
</ul>
</html>
";

/// Probes have no token, and these say nothing that one could use.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];

// === serving ===

/// Serves until `stop`; then connections are cut, since scrapes come again.
pub(crate) async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    let served = stop.run_until_cancelled(axum::serve(listener, router(admin)).into_future()).await;
    if let Some(Err(error)) = served {
        tracing::error!(%error, "the admin listener ended");
    }
}

fn router(admin: Admin) -> Router {
    let admin = Arc::new(admin);
    Router::new()
        .route("/", get(Html(PAGE)))
        .route("/healthz", get("alive\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .merge(api::router(&admin))
        .route("/api/{*path}", any(api::not_found))
        // Merging takes over the fallback of the API together with the layer around it, which is about /api only.
        .fallback(nothing_here)
        .layer(from_fn_with_state(Arc::clone(&admin), authorise))
        .with_state(admin)
}

async fn authorise(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) || admin.allows(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "send Authorization: Bearer TOKEN\n")
        .into_response()
}

async fn nothing_here() -> StatusCode {
    StatusCode::NOT_FOUND
}

async fn ready(State(admin): State<Arc<Admin>>) -> (StatusCode, String) {
    match admin.health.ready(Instant::now()) {
        // Still ready: what was in force before is in force.
        Ok(()) if admin.last_reload.is_refused() => (StatusCode::OK, "ready; the last reload was refused\n".to_owned()),
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(unready) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", unready.as_str())),
    }
}

async fn scrape(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], admin.metrics.encode(admin.executions.executing()))
}

// === impl Admin ===

impl Admin {
    /// Tells about these parts of a gate.
    pub(crate) fn new(parts: &Parts, health: Arc<Health>, last_reload: Arc<LastReload>, desk: Desk) -> Self {
        let (token, metrics, executions) = (parts.token.clone(), Arc::clone(&parts.metrics), parts.guard.clone());
        Self { token, health, metrics, executions, last_reload, desk }
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let token = self.token.0.load();
        let Some(token) = &*token else { return true };
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (shown.next(), shown.next()) else { return false };
        bearer(value.as_bytes()).is_some_and(|shown| token.is(shown))
    }
}

// === impl SharedToken ===

impl SharedToken {
    /// The first one.
    pub(crate) fn new(token: Option<Token>) -> Self {
        Self(Arc::new(ArcSwapOption::from_pointee(token)))
    }

    /// From now on callers must show this one.
    pub(crate) fn replace(&self, token: Option<Token>) {
        self.0.store(token.map(Arc::new));
    }

    fn is_none(&self) -> bool {
        self.0.load().is_none()
    }
}

/// The token behind `Bearer`, whose case does not count (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}
