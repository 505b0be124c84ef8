//! The real gateway before a service whose every call the test answers by hand.

use std::{
    convert::Infallible,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use oncegate_tower::BoxError;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

mod database;
mod sender;
mod watch;
mod wire;

pub(crate) use self::{
    database::Database,
    sender::Sender,
    watch::refusal,
    wire::{wire, wire_from},
};

/// Longer than anything takes on a slow machine: a test that waits in vain fails.
const PATIENCE: Duration = Duration::from_secs(60);

// === the gateway ===

/// A gateway with its service.
pub(crate) struct Gate {
    pub(crate) service: Service,
    pub(crate) server: Server,
    directory: TempDir,
    /// The address of the store.
    store: String,
    sender: Sender,
}

/// A running `oncegate serve`.
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT` of the data path.
    pub(crate) address: String,
    /// `127.0.0.1:PORT` of the admin listener.
    pub(crate) admin: String,
    log: Arc<Mutex<String>>,
}

impl Gate {
    /// Starts both; `config` is the text of a configuration without upstream, listeners and store.
    pub(crate) async fn start(config: &str) -> Self {
        Self::start_with(config, &[]).await
    }

    /// The same with environment variables.
    pub(crate) async fn start_with(config: &str, environment: &[(&str, &str)]) -> Self {
        let directory = in_memory();
        let store = format!("sqlite://{}", directory.path().join("gate.db").display());
        Self::start_in(directory, store, config, environment).await
    }

    /// The same on another store.
    pub(crate) async fn start_on(store: String, config: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), store, config, &[]).await
    }

    async fn start_in(directory: TempDir, store: String, config: &str, environment: &[(&str, &str)]) -> Self {
        let service = Service::start().await;
        let server = Server::start(&store, &service.address, config, environment).await;
        Self { service, server, directory, store, sender: Sender::new() }
    }

    /// Where the store and the configuration lie.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Another gateway before the same service, on the same store.
    pub(crate) async fn another(&self, config: &str) -> Server {
        self.another_with(config, &[]).await
    }

    /// The same with environment variables.
    pub(crate) async fn another_with(&self, config: &str, environment: &[(&str, &str)]) -> Server {
        Server::start(&self.store, &self.service.address, config, environment).await
    }

    /// Kills the gateway as by `kill -9`, and starts it again.
    pub(crate) async fn restart(&mut self, config: &str) {
        self.server.kill().await;
        self.server = self.another(config).await;
    }

    /// Sends a request in a task of its own; aborting it is a client that leaves.
    pub(crate) fn send(&self, request: Sent) -> JoinHandle<Answer> {
        self.send_to(&self.server.address, request)
    }

    /// Sends a request to another gateway.
    pub(crate) fn send_to(&self, address: &str, request: Sent) -> JoinHandle<Answer> {
        let (sender, address) = (self.sender.clone(), address.to_owned());
        tokio::spawn(async move { sender.send(&address, request).await })
    }

    /// Sends a request that must be answered without reaching the service.
    pub(crate) async fn repeat(&mut self, request: Sent) -> Answer {
        self.repeat_at(&self.server.address, request).await
    }

    /// The same through another gateway.
    pub(crate) async fn repeat_at(&self, address: &str, request: Sent) -> Answer {
        let before = self.executions();
        let answer = self.send_to(address, request).await.unwrap();
        assert_eq!(self.executions(), before, "the service was called: {answer:?}");
        answer
    }

    /// Sends a request that the service answers with `reply`.
    pub(crate) async fn exchange(&mut self, request: Sent, reply: Reply) -> Answer {
        let sent = self.send(request);
        self.service.call().await.answer(reply);
        sent.await.unwrap()
    }

    /// How many requests reached the service.
    pub(crate) fn executions(&self) -> usize {
        self.service.count.load(Ordering::SeqCst)
    }

    /// Repeats a request until its answer is more than "not yet", without calling the service.
    pub(crate) async fn conclude(&mut self, request: &Sent) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.repeat(request.clone()).await;
            if !matches!(answer.header("oncegate-problem"), Some("in-flight" | "store-unavailable")) {
                return answer;
            }
            assert!(Instant::now() < deadline, "it is never more than {answer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Repeats a request at a gateway until it is executed; `meanwhile` judges the answers before.
    pub(crate) async fn until_executed(
        &mut self,
        address: &str,
        request: &Sent,
        meanwhile: impl Fn(&Answer),
    ) -> (JoinHandle<Answer>, Call) {
        loop {
            let mut sent = self.send_to(address, request.clone());
            tokio::select! {
                call = self.service.call() => return (sent, call),
                answer = &mut sent => meanwhile(&answer.unwrap()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Server {
    pub(crate) async fn start(store: &str, upstream: &str, config: &str, environment: &[(&str, &str)]) -> Self {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["serve", "--upstream", &format!("http://{upstream}")]);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"]).arg(file.path());
        // A test may bring a store of its own.
        if environment.iter().all(|(name, _)| *name != "ONCEGATE__STORE__URL") {
            command.args(["--store", store]);
        }
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ONCEGATE")) {
            command.env_remove(name);
        }
        // A busy machine is no store that is down; a test may bring another timeout.
        command.env("ONCEGATE__STORE__TIMEOUT", "20s").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let (mut address, mut admin) = (None, None);
        while address.is_none() || admin.is_none() {
            let Some(line) = lines.next_line().await.unwrap() else { panic!("the gate ended:\n{log}") };
            let after = |words: &str| Some(line.split_once(words)?.1.split_whitespace().next()?.to_owned());
            address = address.or_else(|| after("listening on http://"));
            admin = admin.or_else(|| after("admin on http://"));
            log.extend([&*line, "\n"]);
        }
        let log = Arc::new(Mutex::new(log));
        let keeping = Arc::clone(&log);
        // Read on, so that the gateway never waits for its log.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                keeping.lock().unwrap().extend([&*line, "\n"]);
            }
        });
        Self { child, address: address.unwrap(), admin: admin.unwrap(), log }
    }
}

/// A directory that no busy disk makes slow, where there is one: gateways that share a file wait for each other's commits,
/// and tests kill processes, which loses nothing there either.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

// === requests ===

/// A request to send, as often as needed.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// `POST path` of caller A with key `K1` and a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Sent {
    let sent =
        Sent { method: Method::POST, path: path.to_owned(), headers: HeaderMap::new(), body: body.to_owned().into() };
    sent.with("authorization", "Bearer A").with("idempotency-key", "K1").with("content-type", "application/json")
}

impl Sent {
    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.with("idempotency-key", key)
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Sets a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.headers.insert(name, http::HeaderValue::from_bytes(value.as_ref()).unwrap());
        self
    }

    /// Adds a line of a header that may be there.
    pub(crate) fn also(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The request itself, to a gateway.
    pub(crate) fn to(&self, address: &str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = format!("http://{address}{}", self.path).parse().unwrap();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

// === answers ===

/// An answer, read as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the body broke off.
    pub(crate) is_cut: bool,
}

impl Answer {
    async fn of(response: Response<Incoming>) -> Self {
        let (parts, mut incoming) = response.into_parts();
        let (mut body, mut is_cut) = (Vec::new(), false);
        while let Some(frame) = incoming.frame().await {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => body.extend_from_slice(&data),
                Ok(Err(_trailers)) => {}
                Err(_) => is_cut = true,
            }
        }
        Self { status: parts.status.as_u16(), headers: parts.headers, body: body.into(), is_cut }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Asserts that this is the stored answer, with this status and body.
    pub(crate) fn is_replay_of(&self, status: u16, body: &str) {
        let replayed = self.header("idempotent-replayed");
        assert_eq!((self.status, self.text(), replayed), (status, body, Some("true")), "{self:?}");
        assert!(!self.is_cut, "{self:?}");
    }

    /// Asserts that this is the service's own answer, with this status and body.
    pub(crate) fn is_executed(&self, status: u16, body: &str) {
        let replayed = self.header("idempotent-replayed");
        assert_eq!((self.status, self.text(), replayed), (status, body, None), "{self:?}");
    }

    /// Asserts that this is the gateway's own answer, and returns its document.
    pub(crate) fn problem(&self, status: u16, name: &str) -> Value {
        assert_eq!((self.status, self.header("oncegate-problem")), (status, Some(name)), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        serde_json::from_slice(&self.body).unwrap()
    }
}

// === the service ===

/// The service behind the gateway.
pub(crate) struct Service {
    pub(crate) address: String,
    count: Arc<AtomicUsize>,
    calls: mpsc::UnboundedReceiver<Call>,
    sender: mpsc::UnboundedSender<Call>,
    accepting: JoinHandle<()>,
}

/// A request that reached the service, for the test to answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) head: request::Parts,
    pub(crate) body: Bytes,
    reply: oneshot::Sender<Option<Reply>>,
}

pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, calls) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicUsize::new(0));
        let accepting = tokio::spawn(accept(listener, sender.clone(), Arc::clone(&count)));
        Self { address, count, calls, sender, accepting }
    }

    /// Refuses connections from now on; those that are open stay.
    pub(crate) async fn refuse(&mut self) {
        self.accepting.abort();
        assert!((&mut self.accepting).await.is_err(), "the service ended by itself");
    }

    /// Accepts connections again.
    pub(crate) async fn accept(&mut self) {
        let listener = TcpListener::bind(&self.address).await.unwrap();
        self.accepting = tokio::spawn(accept(listener, self.sender.clone(), Arc::clone(&self.count)));
    }

    /// The next request that reaches the service.
    pub(crate) async fn call(&mut self) -> Call {
        let called = tokio::time::timeout(PATIENCE, self.calls.recv()).await;
        called.expect("nothing is executed").unwrap()
    }
}

async fn accept(listener: TcpListener, calls: mpsc::UnboundedSender<Call>, count: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (calls, count) = (calls.clone(), Arc::clone(&count));
        let service = service_fn(move |request| hand_over(calls.clone(), Arc::clone(&count), request));
        let io = TokioIo::new(stream);
        tokio::spawn(http1::Builder::new().timer(TokioTimer::new()).serve_connection(io, service));
    }
}

/// An error makes hyper hang up: that is how the service dies after it executed.
async fn hand_over(
    calls: mpsc::UnboundedSender<Call>,
    count: Arc<AtomicUsize>,
    request: Request<Incoming>,
) -> Result<Reply, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    count.fetch_add(1, Ordering::SeqCst);
    let (reply, replied) = oneshot::channel();
    calls.send(Call { head, body, reply }).map_err(|_| "the test is over")?;
    replied.await?.ok_or_else(|| "hangs up".into())
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn answer(self, reply: Reply) {
        self.reply.send(Some(reply)).ok();
    }

    /// The service has executed, and its connection ends without an answer.
    pub(crate) fn hang_up(self) {
        self.reply.send(None).ok();
    }
}

/// A reply with a status and a body.
pub(crate) fn reply(status: u16, body: &str) -> Reply {
    let body = Full::from(body.to_owned()).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// Adds headers to a reply.
pub(crate) fn with_headers(mut reply: Reply, headers: &[(&'static str, &str)]) -> Reply {
    for (name, value) in headers {
        reply.headers_mut().append(*name, value.parse().unwrap());
    }
    reply
}

/// A reply whose body the test sends part by part: `Ok` a part, `Err` breaks it off, dropping ends it.
pub(crate) fn streamed(status: u16) -> (mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>, Reply) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut response = Response::new(StreamBody::new(UnboundedReceiverStream::new(receiver)).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    (sender, response)
}
