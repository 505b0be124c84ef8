//! The sample service: takes a payment for each request, whether or not it is a repeat.
//!
//! | request | answer |
//! |---|---|
//! | `POST /api/payments` with `{"amount": 100}` | charges, works for a while, 201; with the header `Demo-Hang-Up` it charges and hangs up |
//! | `GET /count` | `{"count": 52}`: how often it charged |
//! | `GET /count?key=KEY` | the same for one key, with the payments' names |

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Makes the service hang up after it has charged. Not a part of the body, so that the repeat is the same request.
pub(super) const HANG_UP: &str = "demo-hang-up";

/// Longest body that is read; a payment is a few bytes long.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A running service. Dropping it ends it, with whatever it is doing.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// What was charged: the payments of each key, and how many there are in all.
#[derive(Debug, Default)]
struct Books {
    total: u64,
    by_key: HashMap<String, Vec<String>>,
}

type Shared = Arc<Mutex<Books>>;

#[derive(Debug, thiserror::Error)]
#[error("the service hung up, as it was asked to")]
struct HungUp;

// === impl Service ===

impl Service {
    /// Starts on a free port of this machine.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the sample service cannot listen")?;
        let address = listener.local_addr().context("the sample service has no address")?;
        let accepting = tokio::spawn(accept(listener));
        Ok(Self { address, accepting })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener) {
    let books = Shared::default();
    // Connections end with this task, since it owns them.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve(stream, books.clone()))),
            // Too many open files, most likely; later there may be fewer.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, books: Shared) {
    let service = service_fn(move |request| answer(request, books.clone()));
    // An error is a client that left, or a hang-up that was asked for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, books: Shared) -> Result<Response<Full<Bytes>>, HungUp> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/api/payments") => pay(request, &books).await,
        (&Method::GET, "/count") => {
            let key = request.uri().query().and_then(|query| query.strip_prefix("key="));
            Ok(json_answer(StatusCode::OK, &count(&books, key)))
        }
        _ => Ok(json_answer(StatusCode::NOT_FOUND, &json!({ "error": "POST /api/payments or GET /count" }))),
    }
}

async fn pay(request: Request<Incoming>, books: &Shared) -> Result<Response<Full<Bytes>>, HungUp> {
    let hangs_up = request.headers().contains_key(HANG_UP);
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let charge = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body.to_bytes()).ok());
    let Some(amount) = charge.as_ref().and_then(|charge| charge["amount"].as_u64()) else {
        return Ok(json_answer(StatusCode::BAD_REQUEST, &json!({ "error": "send {\"amount\": 100}" })));
    };
    let number = charged(books, key);
    tokio::time::sleep(latency(number)).await;
    if hangs_up {
        return Err(HungUp);
    }
    Ok(json_answer(StatusCode::CREATED, &json!({ "payment": name(number), "amount": amount })))
}

/// Charges: from here on there is a payment, whatever the client learns of it.
fn charged(books: &Shared, key: Option<String>) -> u64 {
    let mut books = books.lock().expect("nothing panics while it holds this lock");
    books.total += 1;
    let number = books.total;
    if let Some(key) = key {
        books.by_key.entry(key).or_default().push(name(number));
    }
    number
}

fn count(books: &Shared, key: Option<&str>) -> Value {
    let books = books.lock().expect("nothing panics while it holds this lock");
    let Some(key) = key else { return json!({ "count": books.total }) };
    let payments = books.by_key.get(key).map_or(&[][..], Vec::as_slice);
    json!({ "count": payments.len(), "payments": payments })
}

fn name(number: u64) -> String {
    format!("pay_{number}")
}

/// 150 to 300 ms, as a call to a card network takes.
fn latency(number: u64) -> Duration {
    Duration::from_millis(150 + number * 37 % 151)
}

fn json_answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{body}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
