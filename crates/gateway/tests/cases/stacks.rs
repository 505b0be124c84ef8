//! C73: the layer among others that read and replace bodies.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    middleware::map_request,
    routing::post,
};
use oncegate_core::{Backend, MemoryStore};
use oncegate_tower::{IdempotencyLayer, Route, Routes};
use tower::ServiceExt;

/// Another body in place of the request's, as of a layer that decodes.
async fn replace(request: Request) -> Request {
    let (parts, body) = request.into_parts();
    let body = [&b"decoded "[..], &to_bytes(body, 100).await.unwrap()].concat();
    Request::from_parts(parts, body.into())
}

#[tokio::test]
async fn c73_a_layer_that_replaces_the_body_loses_neither_the_record_nor_the_body() {
    for is_inside in [true, false] {
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        let handler = move |body: Bytes| async move {
            counting.fetch_add(1, Ordering::SeqCst);
            body
        };
        let router = Router::new().route("/x", post(handler));
        let routes = Routes::all(Route::layer("api", Backend::Plain));
        let guard = IdempotencyLayer::new(Arc::new(MemoryStore::single_process()), routes);
        let stack = if is_inside {
            router.layer(map_request(replace)).layer(guard)
        } else {
            router.layer(guard).layer(map_request(replace))
        };
        for is_replayed in [false, true] {
            let request = Request::post("/x").header("idempotency-key", "K1").body(Body::from(r#"{"a":1}"#)).unwrap();
            let answer = stack.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.headers().contains_key("idempotent-replayed"), is_replayed, "inside: {is_inside}");
            assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), r#"decoded {"a":1}"#);
        }
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
