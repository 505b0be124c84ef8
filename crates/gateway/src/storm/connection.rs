//! One connection: opened ahead, loaded with a request, released, answered, and kept while the server keeps it.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::held::HeldSocket;

/// The header by which an answer says that it is a replay.
const REPLAYED: &str = "idempotent-replayed";

/// Longest wait until a connection that was just answered is idle again, or known to be closing.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);

/// An open connection. Dropping it, in any of its states, closes the socket at once.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    socket: HeldSocket,
    opened_at: Instant,
    _driver: AbortOnDropHandle<()>,
}

/// A connection that holds a whole request; not a byte of it was sent.
pub(super) struct Loaded {
    // Dropped first: a response must not outlive the driver that would deliver it.
    response: ResponseFuture,
    connection: Connection,
}

/// A connection whose request is on its way.
pub(super) struct Sent {
    response: ResponseFuture,
    connection: Connection,
    rest: Vec<u8>,
    pub(super) sent_at: Instant,
}

type ResponseFuture = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// A complete answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Whether the answer carries `Idempotent-Replayed: true`.
    pub(super) is_replayed: bool,
    /// `Retry-After` in seconds; its other form, a date, is not read.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: BodyDigest,
    /// From the release of the request to the last byte of the answer.
    pub(super) latency: Duration,
}

/// Tells bodies apart without keeping them: 300 answers of any length must fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BodyDigest {
    bytes: u64,
    digest: u64,
}

// === impl Connection ===

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (socket, opened_at) = (HeldSocket::new(stream), Instant::now());
        let (sender, driver) = handshake(TokioIo::new(socket.clone())).await.map_err(io::Error::other)?;
        // The driver's error reaches whoever waits for the answer.
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { sender, socket, opened_at, _driver: AbortOnDropHandle::new(driver) })
    }

    /// Sends the request and hands the answer over as it is.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.sender.send_request(request).await
    }

    /// Writes the request, but holds it back from the wire. Nothing comes back when the server has hung up meanwhile.
    pub(super) async fn load(mut self, request: Request<Full<Bytes>>) -> Option<Loaded> {
        let flushed = self.socket.hold();
        let mut response: ResponseFuture = Box::pin(self.sender.send_request(request));
        tokio::select! {
            Ok(()) = flushed => Some(Loaded { response, connection: self }),
            _ = &mut response => None,
        }
    }

    /// The connection, if the server keeps it open after an answer.
    pub(super) async fn kept(mut self) -> Option<Self> {
        match timeout(IDLE_WAIT_MAX, self.sender.ready()).await {
            Ok(Ok(())) => Some(self),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Whether the server has hung up, as far as is known here.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

// === impl Loaded ===

impl Loaded {
    /// When the connection was opened. A server accepts in this order, and one with few workers reads in this order.
    pub(super) fn opened_at(&self) -> Instant {
        self.connection.opened_at
    }

    /// Whether the server has hung up, as far as is known here.
    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Sends the request: one system call, no waiting.
    pub(super) fn release(self) -> Sent {
        let sent_at = Instant::now();
        let rest = self.connection.socket.release();
        Sent { response: self.response, connection: self.connection, rest, sent_at }
    }
}

// === impl Sent ===

impl Sent {
    /// Reads the whole answer. Dropping the future hangs up.
    pub(super) async fn answer(self) -> hyper::Result<(Answer, Connection)> {
        let Self { response, connection, rest, sent_at } = self;
        connection.socket.send_rest(rest).await;
        let (head, body) = response.await?.into_parts();
        let answer = Answer {
            status: head.status,
            is_replayed: is_replayed(&head.headers),
            retry_after: retry_after(&head.headers),
            body: BodyDigest::read(body).await?,
            latency: sent_at.elapsed(),
        };
        Ok((answer, connection))
    }
}

fn is_replayed(headers: &HeaderMap) -> bool {
    headers.get(REPLAYED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

// === impl BodyDigest ===

impl BodyDigest {
    #[cfg(test)]
    pub(super) fn of(body: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(body);
        Self { bytes: body.len() as u64, digest: hasher.finish() }
    }

    async fn read(mut body: Incoming) -> hyper::Result<Self> {
        let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                hasher.write(&data);
                bytes += data.len() as u64;
            }
        }
        Ok(Self { bytes, digest: hasher.finish() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn an_answer_is_a_replay_only_when_the_header_says_true() {
        assert!(is_replayed(&headers(REPLAYED, "true")));
        assert!(is_replayed(&headers(REPLAYED, "True")));
        assert!(!is_replayed(&headers(REPLAYED, "false")));
        assert!(!is_replayed(&HeaderMap::new()));
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        assert_eq!(retry_after(&headers("retry-after", "7")), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(&headers("retry-after", "-1")), None);
        assert_eq!(retry_after(&headers("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")), None);
    }
}
