//! How connections to the backend are made.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use oncegate_tower::BoxError;
use tower_service::Service;

use super::super::socket::Socket;

/// When the system starts to ask whether a silent backend is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Connects by TCP; one limit covers the look-up of the name and every address that is tried.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    http: HttpConnector,
    connect_timeout: Duration,
    idle_timeout: Duration,
}

// === impl Connector ===

impl Connector {
    pub(super) fn new(connect_timeout: Duration, idle_timeout: Duration) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_keepalive(Some(TCP_KEEPALIVE));
        Self { http, connect_timeout, idle_timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connected = tokio::time::timeout(self.connect_timeout, self.http.call(address));
        let idle_timeout = self.idle_timeout;
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection within the time allowed");
            let stream = connected.await.map_err(late)??.into_inner();
            Ok(TokioIo::new(Socket::of_upstream(stream, idle_timeout)))
        })
    }
}
