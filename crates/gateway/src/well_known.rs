//! What the gate publishes about itself to clients, below `/.well-known/idempotency`.
//!
//! - `/.well-known/idempotency`: how each route is guarded, as JSON. The draft for the header wants a server to publish
//!   that (draft-ietf-httpapi-idempotency-key-header-07, section 2.6).
//! - `/.well-known/idempotency/problems/NAME`: what a problem document means. Its `type` is that path.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use oncegate_tower::{
    ResponseBody, Routes,
    problem::{ProblemKind, TYPE_PREFIX},
};
use tower_service::Service;

mod policy;
mod problem_page;

// === types ===

/// Answers the published paths and passes everything else on.
#[derive(Debug, Clone)]
pub(crate) struct WellKnown<S> {
    inner: S,
    published: Published,
}

/// What is published; clones share it, so that a reload reaches every connection.
#[derive(Debug, Clone)]
pub(crate) struct Published(Arc<ArcSwap<Bytes>>);

const POLICY_PATH: &str = "/.well-known/idempotency";

/// The pages run nothing and load nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

// === impl Published ===

impl Published {
    /// The policy of these routes.
    pub(crate) fn of(routes: &Routes) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(policy::of(routes))))
    }

    /// Publishes the policy of other routes, on every clone.
    pub(crate) fn replace(&self, routes: &Routes) {
        self.0.store(Arc::new(policy::of(routes)));
    }

    fn answer<B>(&self, method: &Method, path: &str) -> Option<Response<ResponseBody<B>>> {
        let below = path.strip_prefix(POLICY_PATH)?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let allow = (header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", [allow], "read it with GET\n"));
        }
        if below.is_empty() {
            // Whoever changes the policy wants clients to know it soon.
            let cache = (header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
            return Some(page(StatusCode::OK, "application/json", [cache], Bytes::clone(&self.0.load())));
        }
        let kind = path
            .strip_prefix(TYPE_PREFIX)
            .and_then(|name| ProblemKind::ALL.into_iter().find(|kind| kind.name() == name));
        let policy = (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        Some(match kind {
            Some(kind) => page(StatusCode::OK, "text/html; charset=utf-8", [policy], problem_page::of(kind)),
            None => page(StatusCode::NOT_FOUND, "text/plain", [policy], "no such page\n"),
        })
    }
}

fn page<B>(
    status: StatusCode,
    media_type: &'static str,
    [(name, value)]: [(HeaderName, HeaderValue); 1],
    body: impl Into<Bytes>,
) -> Response<ResponseBody<B>> {
    let mut response = Response::new(ResponseBody::whole(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(name, value);
    response
}

// === impl WellKnown ===

impl<S> WellKnown<S> {
    /// Publishes in front of `inner`.
    pub(crate) fn new(inner: S, published: Published) -> Self {
        Self { inner, published }
    }
}

impl<S, B, RB> Service<Request<B>> for WellKnown<S>
where
    S: Service<Request<B>, Response = Response<ResponseBody<RB>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.published.answer(request.method(), request.uri().path()) {
            Some(response) => Either::Left(ready(Ok(response))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};
    use oncegate_core::Backend;
    use oncegate_tower::Route;
    use serde_json::Value;

    use super::*;

    type Answer = Response<ResponseBody<Empty<Bytes>>>;

    fn answer(method: &Method, path: &str) -> Option<Answer> {
        Published::of(&Routes::all(Route::gateway("defaults", Backend::Plain))).answer(method, path)
    }

    async fn text(answer: Answer) -> String {
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_policy_of_each_route_is_published() {
        let policy = answer(&Method::GET, "/.well-known/idempotency").unwrap();
        assert_eq!(policy.headers()[header::CONTENT_TYPE], "application/json");
        let policy: Value = serde_json::from_str(&text(policy).await).unwrap();
        let route = &policy["routes"][0];
        assert_eq!(route["name"], "defaults");
        assert_eq!(route["key"]["name"], "idempotency-key");
        assert_eq!(route["retention_seconds"], 86_400);
        assert_eq!(route["methods"], serde_json::json!(["POST", "PATCH"]));
    }

    #[tokio::test]
    async fn every_problem_type_has_a_page() {
        for kind in ProblemKind::ALL {
            let page = answer(&Method::GET, &format!("{TYPE_PREFIX}{}", kind.name())).unwrap();
            assert_eq!(page.status(), StatusCode::OK, "{}", kind.name());
            let page = text(page).await;
            assert!(page.contains(kind.title()) && page.contains(kind.status().as_str()), "{page}");
        }
    }

    #[test]
    fn other_paths_are_not_ours_and_ours_are_only_read() {
        for path in ["/", "/.well-known/idempotency2", "/.well-known/security.txt", "/a/.well-known/idempotency"] {
            assert!(answer(&Method::GET, path).is_none(), "{path}");
        }
        let status = |method: &Method, path: &str| answer(method, path).unwrap().status();
        assert_eq!(status(&Method::GET, "/.well-known/idempotency/problems/nothing"), StatusCode::NOT_FOUND);
        assert_eq!(status(&Method::GET, "/.well-known/idempotency/"), StatusCode::NOT_FOUND);
        assert_eq!(status(&Method::HEAD, "/.well-known/idempotency"), StatusCode::OK);
        let refused = answer(&Method::POST, "/.well-known/idempotency").unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[header::ALLOW], "GET, HEAD");
    }
}
