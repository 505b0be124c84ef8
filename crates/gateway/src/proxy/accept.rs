//! The accept loop: takes connections in, and lets go of them when told to stop.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto,
};
use oncegate_tower::{BoxError, ResponseBody};
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use super::{
    client_body::ClientBody,
    connection::{self, Ends},
    edge::Edge,
    head_timer::HeadTimer,
    open_files,
    protected::ProtectedHeaders,
    socket::Socket,
};
use crate::access_log::AccessLog;

/// The shortest and the longest pause after the system refused a connection (no descriptor or memory left). Without
/// one the loop would spin; the connection waits in the backlog meanwhile.
const PAUSE: std::ops::Range<Duration> = Duration::from_millis(10)..Duration::from_secs(1);

/// When the system starts to ask whether a silent peer is still there. Nothing else finds out about a peer that
/// vanished without a word while a tunnel is idle.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Most streams at once on one HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 200;

/// How often a silent HTTP/2 peer is pinged, and how long it may take to answer.
const H2_PING: Duration = Duration::from_secs(20);

/// Flow control of HTTP/2: what one stream, and one connection, may have in flight towards us.
const H2_STREAM_WINDOW: u32 = 256 * 1024;
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// How connections are treated.
#[derive(Debug, Clone)]
pub(crate) struct AcceptSettings {
    /// Most connections at once, those among them that became tunnels. When they are used up no more are accepted:
    /// clients wait in the system's backlog and are served as soon as others leave. Nobody gets an error, and nothing
    /// half-accepted has to be thrown away.
    pub(crate) connections_max: usize,
    /// How long a connection may take to bring a whole request head, counted from its start or its last answer; so
    /// also how long it may idle. Longer than the 60 s for which load balancers keep theirs, since a connection that
    /// we close first is one on which they may just send a request.
    pub(crate) head_timeout: Duration,
    /// How long the client may take for the next part of its body, and for taking the next part of ours.
    pub(crate) idle_timeout: Duration,
    /// The longest request head, in bytes; also the size to which the buffers of one connection can grow.
    ///
    /// The number of fields is limited to 100 (HTTP/1, answered with 431), which is hyper's own constant.
    pub(crate) head_bytes_max: usize,
    /// How long connections may go on after `stop`.
    pub(crate) drain: Duration,
    /// What `Connection` must not name.
    pub(crate) protected: ProtectedHeaders,
    /// Who is told of each request.
    pub(crate) access_log: Option<AccessLog>,
}

/// Everything that the connections of one listener share.
struct Listener<S> {
    service: S,
    settings: AcceptSettings,
    builder: auto::Builder<TokioExecutor>,
    ends: Ends,
    tracker: TaskTracker,
}

/// Serves HTTP/1 and HTTP/2 (with prior knowledge) on `listener` until `stop`.
///
/// Then nothing more is accepted, idle connections are closed, and those that answer a request are told that it was the
/// last one (`Connection: close`, GOAWAY) and have `settings.drain` to end. Returns how many had not ended by then and
/// were cut. Tunnels are not among them: see [`Upstream::tunnels`](super::Upstream::tunnels).
///
/// Requests reach `service` with their header rules applied; its errors become problem documents. Dropping the future
/// stops accepting and leaves the connections alone.
pub(crate) async fn accept<S, B>(
    listener: TcpListener,
    service: S,
    settings: AcceptSettings,
    stop: CancellationToken,
) -> usize
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody<B>>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    open_files::raise();
    watch_for_dead_peers(&listener);
    let permits = Arc::new(Semaphore::new(settings.connections_max.min(Semaphore::MAX_PERMITS)));
    let mine = Listener::new(service, settings);
    let mut pause = PAUSE.start;
    while let Some((accepted, permit)) = stop.run_until_cancelled(next(&listener, &permits)).await {
        match accepted {
            Ok((stream, peer)) => {
                pause = PAUSE.start;
                mine.serve(stream, peer, permit);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, ?pause, "cannot accept a connection");
                stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                pause = (pause * 2).min(PAUSE.end);
            }
        }
    }
    drop(listener);
    mine.drain().await
}

/// The next connection, once there is room for it.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (io::Result<(TcpStream, SocketAddr)>, OwnedSemaphorePermit) {
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    (listener.accept().await, permit)
}

/// Whether the client's side is to blame, so that the next `accept` can succeed at once.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Accepted connections inherit the option from the listener, which saves two system calls for each.
fn watch_for_dead_peers(listener: &TcpListener) {
    let set = sockopt::set_socket_keepalive(listener, true)
        .and_then(|()| sockopt::set_tcp_keepidle(listener, TCP_KEEPALIVE))
        .and_then(|()| sockopt::set_tcp_keepintvl(listener, TCP_KEEPALIVE / 4));
    if let Err(error) = set {
        tracing::warn!(%error, "cannot enable TCP keep-alive");
    }
}

// === impl AcceptSettings ===

impl Default for AcceptSettings {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            head_timeout: Duration::from_secs(75),
            idle_timeout: Duration::from_secs(60),
            head_bytes_max: 64 * 1024,
            drain: Duration::from_secs(30),
            protected: ProtectedHeaders::default(),
            access_log: None,
        }
    }
}

impl AcceptSettings {
    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .header_read_timeout(self.head_timeout)
            .max_buf_size(self.head_bytes_max)
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(H2_PING)
            .keep_alive_timeout(H2_PING)
            .max_concurrent_streams(H2_STREAMS_MAX)
            .max_header_list_size(u32::try_from(self.head_bytes_max).unwrap_or(u32::MAX))
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW)
            .max_send_buf_size(self.head_bytes_max);
        builder
    }
}

// === impl Listener ===

impl<S, B> Listener<S>
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody<B>>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn new(service: S, settings: AcceptSettings) -> Self {
        let (builder, ends) = (settings.builder(), Ends::default());
        Self { service, settings, builder, ends, tracker: TaskTracker::new() }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        // Small answers must not wait for the acknowledgement of earlier ones.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let socket = Socket::of_client(stream, permit, self.settings.head_timeout, self.settings.idle_timeout);
        let edge = Arc::new(Edge::new(peer.ip(), &self.settings));
        let (mut builder, service, ends) = (self.builder.clone(), self.service.clone(), self.ends.clone());
        builder.http1().timer(HeadTimer::default());
        self.tracker.spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let (edge, service) = (Arc::clone(&edge), service.clone());
                async move { Ok::<_, Infallible>(edge.answer(service, request).await) }
            });
            connection::serve(&builder, socket, answer, ends).await;
        });
    }

    async fn drain(self) -> usize {
        self.ends.stop();
        self.tracker.close();
        if tokio::time::timeout(self.settings.drain, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.ends.cut();
        self.tracker.wait().await;
        left
    }
}
