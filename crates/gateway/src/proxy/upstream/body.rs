//! The body of a response, as the backend sends it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use oncegate_tower::UpstreamError;
use tokio::time::Instant;

use super::{failure, pool::Lent, upload::Upload};

/// A response body that ends with an error when the backend breaks off (kind `Failed`) or pauses for too long
/// (`Timeout`). Dropping it before its end closes the connection.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    /// `None` once it has ended in an error, so that the connection is closed.
    incoming: Option<Incoming>,
    idle_timeout: Duration,
    /// When the present wait will have lasted too long.
    deadline: Option<Instant>,
    /// `None` once the connection is kept for another request.
    lent: Option<Lent>,
    end: End,
}

/// What the end of the response means for its connection.
#[derive(Debug)]
pub(super) enum End {
    /// It is closed.
    Closes,
    /// It serves another request, unless this one's body is still on its way.
    Keeps(Option<Arc<Upload>>),
    /// It is closed in the middle of a request body that the backend did not want.
    Refuses(Arc<Upload>),
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(super) fn new(incoming: Incoming, idle_timeout: Duration, lent: Lent, end: End) -> Self {
        let is_over = incoming.is_end_stream();
        let mut body = Self { incoming: Some(incoming), idle_timeout, deadline: None, lent: Some(lent), end };
        if is_over {
            body.keep();
        }
        body
    }

    fn keep(&mut self) {
        if let End::Keeps(upload) = &self.end
            && upload.as_ref().is_none_or(|upload| upload.is_passed())
            && let Some(lent) = self.lent.take()
        {
            lent.keep();
        }
    }

    /// Nothing has come yet: too late?
    fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.idle_timeout);
        // Where the connection is gone, so is everything that could be waited for.
        self.lent.as_mut().map_or(Poll::Pending, |lent| lent.alarm().poll_at(deadline, cx))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = &mut *self;
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                this.incoming = None;
                Poll::Ready(Some(Err(failure::of_body(error))))
            }
            Poll::Ready(frame) => {
                this.deadline = None;
                // One of unknown length says so itself.
                if frame.is_none() || this.is_end_stream() {
                    this.keep();
                }
                Poll::Ready(frame.map(|frame| frame.map_err(failure::of_body)))
            }
            Poll::Pending => this.poll_exceeded(cx).map(|()| {
                this.incoming = None;
                Some(Err(UpstreamError::timeout()))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        if let End::Refuses(upload) = &self.end {
            upload.abandon();
        }
    }
}
