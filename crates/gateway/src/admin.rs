//! The admin listener: whether the process lives, whether it is ready, what it counts, and the operators' verbs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use axum::{Router, body::Body, extract::State, middleware::from_fn_with_state, response::IntoResponse, routing::get};
use http::{Request, Response, StatusCode, header};
use oncegate_tower::{Handle, ResponseBody};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    config::Token,
    metrics::{self, Metrics},
    proxy::{self, AcceptSettings, ClientBody},
    records::desk::Desk,
    serve::{
        health::Health,
        reload::{LastReload, Parts},
    },
};

mod access;
mod ages;
mod api;
mod history;
mod page;
mod seal;

use self::{access::Access, ages::Ages, history::History};

// === types ===

/// What the admin listener tells about.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Who is answered.
    access: Access,
    /// What `/readyz` answers from.
    health: Arc<Health>,
    /// What `/metrics` answers from.
    metrics: Arc<Metrics>,
    /// Knows how many executions there are now.
    executions: Handle,
    /// Whether what is in force is what was written last.
    last_reload: Arc<LastReload>,
    /// What the charts are drawn from.
    history: Arc<History>,
    /// How long what is in flight has been there.
    ages: Ages,
    /// What `/api` and the page work on.
    desk: Desk,
    /// Whether stored responses may be shown, and not only how long they are.
    show_bodies: bool,
}

/// The token that holds now, if any; clones share it, so that a reload reaches the listener.
#[derive(Debug, Clone)]
pub(crate) struct SharedToken(Arc<ArcSwapOption<Token>>);

// === serving ===

/// Most connections at once: scrapers and people are few, and who shows no token must not take the clients' descriptors.
const CONNECTIONS_MAX: usize = 256;

/// Serves until `stop`; then connections are cut, since scrapes come again.
pub(crate) async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    let history = Arc::clone(&admin.history).run(stop.clone());
    let service = router(admin)
        .map_request(|request: Request<ClientBody>| request.map(Body::new))
        .map_response(|response: Response<Body>| response.map(ResponseBody::passed));
    let settings =
        AcceptSettings { connections_max: CONNECTIONS_MAX, drain: Duration::ZERO, ..AcceptSettings::default() };
    tokio::join!(history, proxy::accept(listener, service, settings, stop));
}

fn router(admin: Admin) -> Router {
    let admin = Arc::new(admin);
    Router::new()
        .route("/healthz", get("alive\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .merge(api::router())
        .merge(page::router())
        .fallback(nothing_here)
        .layer(from_fn_with_state(Arc::clone(&admin), access::authorise))
        .with_state(admin)
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
    pub(crate) fn new(
        parts: &Parts,
        health: Arc<Health>,
        last_reload: Arc<LastReload>,
        desk: Desk,
        show_bodies: bool,
    ) -> Self {
        let (metrics, executions) = (Arc::clone(&parts.metrics), parts.guard.clone());
        Self {
            access: Access::new(parts.token.clone()),
            health,
            history: Arc::new(History::new(Arc::clone(&metrics), executions.clone())),
            metrics,
            executions,
            last_reload,
            ages: Ages::default(),
            desk,
            show_bodies,
        }
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
}
