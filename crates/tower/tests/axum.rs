//! The layer around an axum router.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
    routing::post,
};
use oncegate_core::{Backend, MemoryStore};
use oncegate_tower::{CurrentLease, IdempotencyLayer, Route, Routes};
use tower::ServiceExt;

async fn send(app: &Router, path: &str, key: Option<&str>) -> Response {
    let mut request = Request::post(path);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    app.clone().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap()
}

fn layer() -> IdempotencyLayer {
    let routes = Routes::all(Route::layer("api", Backend::Plain));
    IdempotencyLayer::new(Arc::new(MemoryStore::single_process()), routes)
}

#[tokio::test]
async fn a_handler_runs_once_and_may_ask_for_its_lease() {
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    let handler = move |lease: Option<CurrentLease>| async move {
        counting.fetch_add(1, Ordering::SeqCst);
        lease.map_or("unguarded".to_owned(), |lease| format!("{} {}", lease.key.as_str(), lease.lease.attempt))
    };
    let app = Router::new().route("/payments", post(handler)).layer(layer());
    for replayed in [None, Some("true")] {
        let response = send(&app, "/payments", Some("k")).await;
        let header = response.headers().get("idempotent-replayed").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header.as_deref(), replayed);
        assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "k 1");
    }
    let response = send(&app, "/payments", None).await;
    assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "unguarded");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn nested_routers_do_not_make_two_paths_one() {
    let layer = layer();
    let nested =
        |text: &'static str| Router::new().route("/pay", post(move || async move { text })).layer(layer.clone());
    let app = Router::new().nest("/orders", nested("order")).nest("/invoices", nested("invoice"));
    assert_eq!(send(&app, "/orders/pay", Some("k")).await.status(), 200);
    let other = send(&app, "/invoices/pay", Some("k")).await;
    assert_eq!(other.status(), 422, "the answer of another endpoint");
}
