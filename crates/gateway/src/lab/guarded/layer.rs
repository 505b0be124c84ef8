//! The layer, which is also the gateway's flow, before a handler that knows nothing of keys.

use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use oncegate_core::{Backend, Policy, Store};
use oncegate_store::{
    lab::{Database, Refusal},
    postgres::{self, PostgresStore},
    sqlite::{self, SqliteStore},
};
use oncegate_tower::{Idempotency, IdempotencyLayer, RequestBody, Route, Routes};
use tower::{Layer as _, Service, ServiceExt as _};

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Fate, Fault, Interrupted, LEASE, Shop, Worker},
};

// === types ===

/// A service of payments behind the layer.
pub(super) struct Layered {
    service: Idempotency<Payments>,
}

/// The handler that is guarded.
#[derive(Debug, Clone)]
struct Payments {
    shop: Arc<Shop>,
}

// === impl Layered ===

impl Layered {
    /// # Errors
    /// The store cannot be opened.
    pub(super) fn new(shop: &Arc<Shop>) -> anyhow::Result<Self> {
        let store: Arc<dyn Store> = match shop.database() {
            Database::Postgres(address) => Arc::new(PostgresStore::open(address, postgres::Options::default())),
            Database::Sqlite(path) => {
                let store = SqliteStore::open(path.with_extension("store.db"), sqlite::Options::default());
                Arc::new(store.context("the store of the lab")?)
            }
        };
        let mut route = Route::layer("payments", Backend::Plain);
        let mut policy = Policy::layer(Backend::Plain);
        policy.lease = LEASE;
        route.policy = Arc::new(policy);
        let layer = IdempotencyLayer::new(store, Routes::all(route));
        Ok(Self { service: layer.layer(Payments { shop: Arc::clone(shop) }) })
    }
}

#[async_trait]
impl Program for Layered {
    fn about(&self) -> &'static About {
        &About {
            implementation: "layer, plain handler",
            kind: Kind::Oncegate,
            about: "plain: executed once, its lease extended while it runs; a crash would be reported as unknown, never repeated",
            tables: "",
        }
    }

    fn can_meet(&self, fault: Fault) -> bool {
        match fault {
            Fault::None | Fault::Pause => true,
            // The layer lives in the worker: it would have to be this program that dies. `oncegate demo` shows that.
            Fault::CrashBeforeEffect | Fault::CrashAfterEffect => false,
            // There is none.
            Fault::CacheRestart => false,
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let request = Request::post("/payments")
            .header("idempotency-key", key)
            .extension(Arc::clone(worker.fate()))
            .body(Body::empty())
            .expect("a key of the lab is a header value");
        let response = self.service.clone().oneshot(request).await?;
        let status = response.status();
        // The last byte comes when the completion is stored.
        let body = response.into_body().collect().await;
        match (status, body) {
            (StatusCode::CREATED, Ok(_)) => Ok(Answer::Paid),
            (StatusCode::CONFLICT, Ok(_)) => Ok(Answer::Busy),
            (status, _) => Err(Refusal { code: status.to_string(), source: "answered by the layer".into() }.into()),
        }
    }
}

// === impl Payments ===

impl Service<Request<RequestBody<Body>>> for Payments {
    type Response = Response<Body>;
    type Error = Interrupted;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Body>>) -> Self::Future {
        let shop = Arc::clone(&self.shop);
        Box::pin(async move {
            let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
            let fate = request.extensions().get::<Arc<Fate>>().expect("every request of the lab has one");
            let worker = shop.worker(fate);
            let paid = worker.pay(key).await;
            worker.leave(paid).await?;
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
        })
    }
}
