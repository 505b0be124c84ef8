//! One connection: served until it ends, is asked to end, or is cut.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use oncegate_tower::BoxError;
use tokio_util::sync::CancellationToken;

use super::socket::Socket;

/// What ends connections from our side; clones end together.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    stop: CancellationToken,
    /// Set before `stop` is, and read without a lock.
    is_stopping: Arc<AtomicBool>,
    cut: CancellationToken,
}

// === impl Ends ===

impl Ends {
    /// Finish what runs, and begin nothing new.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.stop.cancel();
    }

    /// Drop it now.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }
}

/// Serves one connection to its end.
pub(super) async fn serve<S, B>(builder: &auto::Builder<TokioExecutor>, socket: Socket, answer: S, ends: Ends)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(socket), answer));
    let mut stopped = pin!(ends.stop.cancelled());
    let mut is_awaited = false;
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        // Polled once, the token wakes this task. Polling it again each time takes a lock that all connections share.
        if is_awaited && !ends.is_stopping.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        is_awaited = true;
        stopped.as_mut().poll(cx).map(|()| None)
    });
    let ended = match ended.await {
        Some(ended) => Some(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            ends.cut.run_until_cancelled(connection).await
        }
    };
    // Clients that hang up, time out or send nonsense: everyday life, and already answered where that is possible.
    if let Some(Err(error)) = ended {
        tracing::debug!(error, "connection ended early");
    }
}
