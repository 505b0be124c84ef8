//! The body of a request, as the client sends it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::idle_timer::IdleTimer;

/// How much of a body that nobody wants is read away, and for how long, before the connection is closed on a client
/// that still sends. Closing at once would reset the connection, and the reset can destroy the answer that explains it.
const DRAIN_BYTES_MAX: usize = 64 * 1024 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// A client's request body.
///
/// Ends with an error when the client breaks off or pauses for too long, so it is never mistaken for a whole one.
/// Dropped before its end, the rest is read away in the background (within limits), and the connection stays of use.
#[derive(Debug)]
pub(crate) struct ClientBody {
    /// `None` once it has ended in an error.
    incoming: Option<Incoming>,
    is_over: bool,
    timer: IdleTimer,
    unread: Unread,
    expectation: Option<Expectation>,
}

/// What becomes of a body that nobody reads to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It stands between us and the next request.
    Drain,
    /// It has a stream of its own, which is reset.
    Drop,
}

/// A client that waits for `100 Continue`; hyper sends it when the body is first asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Expectation {
    is_met: Arc<AtomicBool>,
}

/// Why a client's body ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientBodyError {
    #[error("the client sent nothing for {0:?} in the middle of the request body")]
    Idle(Duration),
    #[error("the client's request body ended before its end")]
    Cut(#[source] Option<hyper::Error>),
}

// === impl ClientBody ===

impl ClientBody {
    pub(super) fn new(
        incoming: Incoming,
        idle_timeout: Duration,
        unread: Unread,
        expectation: Option<Expectation>,
    ) -> Self {
        let timer = IdleTimer::new(idle_timeout);
        Self { incoming: Some(incoming), is_over: false, timer, unread, expectation }
    }

    fn end(&mut self, error: ClientBodyError) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        self.incoming = None;
        self.is_over = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = ClientBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let this = &mut *self;
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        if let Some(expectation) = &this.expectation {
            expectation.is_met.store(true, Ordering::Relaxed);
        }
        match Pin::new(&mut *incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.timer.rest();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.end(ClientBodyError::Cut(Some(error))),
            // hyper takes a stream that was reset with NO_ERROR for one that ended: a server may do that to a client,
            // whose request is answered; a client that does it has broken off.
            Poll::Ready(None) if this.unread == Unread::Drop && !incoming.is_end_stream() => {
                this.end(ClientBodyError::Cut(None))
            }
            Poll::Ready(None) => {
                this.is_over = true;
                Poll::Ready(None)
            }
            Poll::Pending => match this.timer.poll_exceeded(cx) {
                Poll::Ready(()) => this.end(ClientBodyError::Idle(this.timer.limit())),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        if self.unread == Unread::Drop || self.is_end_stream() {
            return;
        }
        // A client that was never told to continue has sent nothing that would have to be read away.
        if self.expectation.as_ref().is_some_and(|expectation| !expectation.is_met()) {
            return;
        }
        if let (Some(incoming), Ok(runtime)) = (self.incoming.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(DRAIN_TIME_MAX, drain(incoming)));
        }
    }
}

async fn drain(mut incoming: Incoming) {
    let mut bytes_left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = incoming.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = bytes_left.checked_sub(bytes) else { return };
        bytes_left = left;
    }
}

// === impl Expectation ===

impl Expectation {
    /// Whether the client was told to continue, or is about to be.
    pub(super) fn is_met(&self) -> bool {
        self.is_met.load(Ordering::Relaxed)
    }
}
