//! A client for many tasks at once.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use super::{Answer, Sent};

/// Sends requests; clones share their connections.
#[derive(Clone)]
pub(crate) struct Sender(Client<HttpConnector, Full<Bytes>>);

impl Sender {
    /// One that sends nothing twice.
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http())
    }

    /// Sends a request to a gateway.
    pub(crate) async fn send(&self, address: &str, request: Sent) -> Answer {
        Answer::of(self.0.request(request.to(address)).await.unwrap()).await
    }
}
