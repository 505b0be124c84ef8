//! A client that keeps the key and repeats.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};

#[derive(Clone)]
pub(crate) struct Client(HyperClient<HttpConnector, Full<Bytes>>);

pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self(HyperClient::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http())
    }

    /// Posts a payment; `None` if the whole answer did not come.
    pub(crate) async fn pay(&self, address: &str, key: &str) -> Option<Answer> {
        let request = Request::post(format!("http://{address}/payments")).header("idempotency-key", key);
        let response = self.0.request(request.body(Full::from("{\"amount\":100}")).unwrap()).await.ok()?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Repeats until the answer is more than "not yet".
    pub(crate) async fn conclude(&self, address: &str, key: &str) -> Answer {
        let concluded = async {
            loop {
                match self.pay(address, key).await {
                    Some(answer) if matches!(answer.problem(), Some("in-flight" | "store-unavailable")) => {}
                    Some(answer) => return answer,
                    None => panic!("the restarted gate does not answer"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), concluded).await.expect("a key stays blocked for ever")
    }
}

impl Answer {
    pub(crate) fn problem(&self) -> Option<&str> {
        self.headers.get("oncegate-problem").map(|name| name.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }
}
