//! A client that pays, and repeats.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::service::HANG_UP;

/// Longest wait for an answer: much longer than the service works.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// One payment that a client wants. Sending it again is a repeat.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub(super) key: String,
    pub(super) amount: u64,
    /// Whether the service is asked to hang up after it has charged.
    pub(super) hangs_up: bool,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) is_replayed: bool,
    /// The last part of a problem's `type`, such as `in-flight`.
    pub(super) problem: Option<String>,
    pub(super) body: String,
}

type Sender = SendRequest<Full<Bytes>>;

/// Sends a payment once.
pub(super) async fn pay(address: SocketAddr, payment: &Payment) -> anyhow::Result<Answer> {
    let sender = connect(address).await?;
    send(sender, payment.request(address)?).await
}

/// Sends the same payment many times at the same instant: every connection is open before the first is written to.
pub(super) async fn pay_at_once(address: SocketAddr, payment: &Payment, times: usize) -> anyhow::Result<Vec<Answer>> {
    let mut senders = Vec::with_capacity(times);
    for _ in 0..times {
        senders.push((connect(address).await?, payment.request(address)?));
    }
    join_all(senders.into_iter().map(|(sender, request)| send(sender, request))).await.into_iter().collect()
}

/// What a path of the service says.
pub(super) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let request = Request::builder().uri(path).header(header::HOST, address.to_string()).body(Full::default())?;
    let answer = send(connect(address).await?, request).await?;
    serde_json::from_str(&answer.body).with_context(|| format!("GET {path} answers no JSON: {}", answer.body))
}

async fn connect(address: SocketAddr) -> anyhow::Result<Sender> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("{address} does not accept connections"))?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its error reaches whoever waits for the answer.
    tokio::spawn(connection);
    Ok(sender)
}

async fn send(mut sender: Sender, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let sending = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).trim_end().to_owned();
        let is_replayed = head.headers.contains_key("idempotent-replayed");
        anyhow::Ok(Answer { status: head.status.as_u16(), is_replayed, problem: problem(&body), body })
    };
    tokio::time::timeout(ANSWER_MAX, sending).await.with_context(|| format!("no answer within {ANSWER_MAX:?}"))?
}

fn problem(body: &str) -> Option<String> {
    let document: Value = serde_json::from_str(body).ok()?;
    let (_, name) = document["type"].as_str()?.rsplit_once('/')?;
    Some(name.to_owned())
}

// === impl Payment ===

impl Payment {
    fn request(&self, address: SocketAddr) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/api/payments")
            .header(header::HOST, address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", &self.key);
        if self.hangs_up {
            request = request.header(HANG_UP, "yes");
        }
        Ok(request.body(Full::from(format!("{{\"amount\": {}}}", self.amount)))?)
    }
}
