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

use super::{super::idle_timer::IdleTimer, failure, upload::Upload};

/// A response body that ends with an error when the backend breaks off (kind `Failed`) or pauses for too long
/// (`Timeout`). Dropping it before its end closes the connection.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    /// `None` once it has ended in an error, so that the connection is closed.
    incoming: Option<Incoming>,
    timer: IdleTimer,
    /// A request body that the backend did not want.
    refused: Option<Arc<Upload>>,
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(super) fn new(incoming: Incoming, idle_timeout: Duration, refused: Option<Arc<Upload>>) -> Self {
        Self { incoming: Some(incoming), timer: IdleTimer::new(idle_timeout), refused }
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
                this.timer.rest();
                Poll::Ready(frame.map(|frame| frame.map_err(failure::of_body)))
            }
            Poll::Pending => this.timer.poll_exceeded(cx).map(|()| {
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
        if let Some(refused) = &self.refused {
            refused.abandon();
        }
    }
}
