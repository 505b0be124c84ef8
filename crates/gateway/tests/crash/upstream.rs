//! A backend that counts what it executes, by key.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// For each key, the attempts that it saw.
pub(crate) type Ledger = Arc<Mutex<HashMap<String, Vec<u32>>>>;

/// Long enough that a crash while the answer is awaited finds many requests here.
const WORK: Duration = Duration::from_millis(20);

pub(crate) async fn start() -> (String, Ledger) {
    let ledger = Ledger::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&ledger);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let ledger = Arc::clone(&shared);
            let service = service_fn(move |request| pay(Arc::clone(&ledger), request));
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    (format!("http://{address}"), ledger)
}

async fn pay(ledger: Ledger, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap().to_owned();
    let (key, attempt) = (header("idempotency-key"), header("oncegate-attempt"));
    if request.into_body().collect().await.is_err() {
        return Ok(Response::new(Full::default()));
    }
    let nth = {
        let mut ledger = ledger.lock().unwrap();
        let attempts = ledger.entry(key.clone()).or_default();
        attempts.push(attempt.parse().unwrap());
        attempts.len()
    };
    tokio::time::sleep(WORK).await;
    // An idempotent backend would give the first answer again; that it ran again is what is counted.
    let mut response = Response::new(Full::from(format!("{{\"key\":\"{key}\",\"execution\":{nth}}}")));
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}
