//! A scripted API: counts executions per key, and answers as the script says.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

type Answer = Response<Full<Bytes>>;
type Script = dyn Fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync;

/// A server on a free port of the loopback, stopped when dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<State>,
    _server: AbortOnDropHandle<()>,
}

/// What the server has seen and done.
#[derive(Default)]
pub(crate) struct State {
    keys: Mutex<BTreeMap<String, PerKey>>,
    connections: Mutex<u64>,
    requests: Mutex<Vec<Seen>>,
    /// How often the count was asked for.
    pub(crate) counted: watch::Sender<u64>,
    /// Asks the server to stop accepting connections.
    pub(crate) close: Notify,
    /// 1 when it has stopped.
    pub(crate) closed: watch::Sender<u64>,
}

/// What was seen of one key. The watches only grow, so a script can wait for a number to be reached.
#[derive(Clone)]
pub(crate) struct PerKey {
    arrived: u64,
    executions: u64,
    pub(crate) answered: watch::Sender<u64>,
    pub(crate) left: watch::Sender<u64>,
    pub(crate) racing: watch::Sender<u64>,
}

/// One request as it arrived.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One request for the script.
pub(crate) struct Call {
    pub(crate) state: Arc<State>,
    pub(crate) key: String,
    /// How many requests of this key arrived before.
    pub(crate) nth: u64,
    pub(crate) seen: PerKey,
}

// === impl Backend ===

impl Backend {
    pub(crate) async fn start<F>(script: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let script: Arc<Script> = Arc::new(move |call| Box::pin(script(call)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let server = tokio::spawn(accept(listener, state.clone(), script));
        Self { address, state, _server: AbortOnDropHandle::new(server) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            () = state.close.notified() => break,
        };
        *state.connections.lock().unwrap() += 1;
        let (state, script) = (state.clone(), script.clone());
        let service = service_fn(move |request| answer(request, state.clone(), script.clone()));
        connections.spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
    drop(listener);
    state.closed.send_replace(1);
    connections.join_all().await;
}

async fn answer(request: Request<Incoming>, state: Arc<State>, script: Arc<Script>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET {
        let count = match head.uri.path().strip_prefix("/count/") {
            Some(key) => state.executions_of(key),
            None => state.executions(),
        };
        state.counted.send_modify(|counted| *counted += 1);
        return Ok(json(200, &format!(r#"{{"count":{count},"text":"{count}"}}"#)));
    }
    let Ok(body) = body.collect().await else { return Ok(json(400, "{}")) };
    let key = head.headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
    let path = head.uri.to_string();
    let seen = Seen { key: key.clone(), path, headers: head.headers, body: body.to_bytes() };
    state.requests.lock().unwrap().push(seen);
    let (nth, seen) = state.arrive(&key);
    let leaving = Leaving(Some(seen.clone()));
    let answer = script(Call { state, key, nth, seen }).await;
    leaving.answered();
    Ok(answer)
}

/// Notices when a request is dropped before it was answered, since its client hung up.
struct Leaving(Option<PerKey>);

impl Leaving {
    fn answered(mut self) {
        if let Some(seen) = self.0.take() {
            seen.answered.send_modify(|answered| *answered += 1);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(seen) = self.0.take() {
            seen.left.send_modify(|left| *left += 1);
        }
    }
}

// === impl State ===

impl State {
    pub(crate) fn connections(&self) -> u64 {
        *self.connections.lock().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests.lock().unwrap().clone()
    }

    /// Counts one execution and returns the number of all.
    pub(crate) fn execute(&self, key: &str) -> u64 {
        self.keys.lock().unwrap().get_mut(key).unwrap().executions += 1;
        self.executions()
    }

    pub(crate) fn executions(&self) -> u64 {
        self.keys.lock().unwrap().values().map(|seen| seen.executions).sum()
    }

    fn executions_of(&self, key: &str) -> u64 {
        self.keys.lock().unwrap().get(key).map_or(0, |seen| seen.executions)
    }

    fn arrive(&self, key: &str) -> (u64, PerKey) {
        let mut keys = self.keys.lock().unwrap();
        let seen = keys.entry(key.to_owned()).or_insert_with(|| PerKey {
            arrived: 0,
            executions: 0,
            answered: watch::Sender::new(0),
            left: watch::Sender::new(0),
            racing: watch::Sender::new(0),
        });
        seen.arrived += 1;
        (seen.arrived - 1, seen.clone())
    }
}

/// Waits until the number is reached.
pub(crate) async fn reaches(number: &watch::Sender<u64>, least: u64) {
    number.subscribe().wait_for(|now| *now >= least).await.unwrap();
}

pub(crate) fn json(status: u16, body: &str) -> Answer {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .unwrap()
}

/// The same with one more header.
pub(crate) fn with(mut answer: Answer, name: &'static str, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

pub(crate) fn replay(body: &str) -> Answer {
    with(json(201, body), "idempotent-replayed", "true")
}
