//! One connection: served until it ends, is asked to end, or is cut.

use std::convert::Infallible;

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

/// What ends a connection from our side.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    /// Finish what runs, and begin nothing new.
    pub(super) stop: CancellationToken,
    /// Drop it now.
    pub(super) cut: CancellationToken,
}

/// Serves one connection to its end.
pub(super) async fn serve<S, B>(builder: &auto::Builder<TokioExecutor>, socket: Socket, answer: S, ends: Ends)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(socket), answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = ends.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = connection => ended,
                () = ends.cut.cancelled() => return,
            }
        }
    };
    // Clients that hang up, time out or send nonsense: everyday life, and already answered where that is possible.
    if let Err(error) = ended {
        tracing::debug!(error, "connection ended early");
    }
}
