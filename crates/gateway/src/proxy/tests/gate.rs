//! The proxy as a test sets it up, and the backend behind it.

use std::{net::SocketAddr, time::Duration};

use http::{Request, Response};
use oncegate_tower::{RequestBody, ResponseBody};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    super::{AcceptSettings, Settings, Upstream, accept, client_body::ClientBody, upstream::UpstreamBody},
    wire::{Head, Wire, soon},
};

/// A proxy with nothing in between, before a backend that the test plays.
pub(super) struct Gate {
    pub(super) address: SocketAddr,
    pub(super) upstream: Upstream,
    backend: TcpListener,
    stop: CancellationToken,
    accepting: JoinHandle<usize>,
}

/// How a test wants the proxy.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) accept: AcceptSettings,
    pub(super) upstream: Settings,
    pub(super) base: &'static str,
}

// === impl Gate ===

impl Gate {
    pub(super) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::default();
        change(&mut setup);
        let (listener, backend) = (loopback().await, loopback().await);
        let backend_address = format!("http://{}{}", backend.local_addr().unwrap(), setup.base);
        let upstream = Upstream::new(&backend_address.parse().unwrap(), setup.upstream);
        let service = upstream
            .clone()
            .map_request(|request: Request<ClientBody>| request.map(RequestBody::passed))
            .map_response(|response: Response<UpstreamBody>| response.map(ResponseBody::passed));
        let (stop, address) = (CancellationToken::new(), listener.local_addr().unwrap());
        let accepting = tokio::spawn(accept(listener, service, setup.accept, stop.clone()));
        Self { address, upstream, backend, stop, accepting }
    }

    /// A client's connection.
    pub(super) async fn client(&self) -> Wire {
        Wire::new(self.stream().await)
    }

    pub(super) async fn stream(&self) -> TcpStream {
        soon("a connection", TcpStream::connect(self.address)).await.unwrap()
    }

    /// The backend's side of the next connection that the proxy opens.
    pub(super) async fn backend(&self) -> Wire {
        Wire::new(soon("a connection to the backend", self.backend.accept()).await.unwrap().0)
    }

    /// Whether the proxy has opened no connection that the test did not take.
    pub(super) async fn backend_is_left_alone(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.backend.accept() => false,
            () = std::future::ready(()) => true,
        }
    }

    /// The next request head, by the connection that the proxy keeps or by a new one, which then takes its place.
    pub(super) async fn next_head(&self, kept: &mut Wire) -> Head {
        let mut new = tokio::select! {
            biased;
            Some(head) = kept.try_head() => return head,
            new = self.backend() => new,
        };
        let head = new.head().await;
        *kept = new;
        head
    }

    /// A client of a proxy whose backend has gone.
    pub(super) async fn orphan() -> Wire {
        let Self { address, backend, .. } = Self::start().await;
        drop(backend);
        Wire::new(TcpStream::connect(address).await.unwrap())
    }

    /// Sends a whole request and lets the backend give a whole response: the two heads as they arrived. Both connections
    /// stay open until the next call.
    pub(super) async fn exchange(&self, request: &str, response: &str) -> (Head, Head) {
        let mut client = self.client().await;
        client.send(request).await;
        let mut backend = self.backend().await;
        let arrived = backend.head().await;
        backend.send(response).await;
        (arrived, client.head().await)
    }

    /// What the proxy answers by itself.
    pub(super) async fn refusal(&self, request: &str) -> Head {
        let mut client = self.client().await;
        client.send(request).await;
        let head = client.head().await;
        assert!(self.backend_is_left_alone().await, "the backend saw {request:?}");
        head
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops, and says how many connections were cut.
    pub(super) async fn stopped(self) -> usize {
        self.stop.cancel();
        soon("the end of the accept loop", self.accepting).await.unwrap()
    }
}

impl Setup {
    /// Waits of the upstream end at once.
    pub(super) fn hurry(&mut self) {
        self.upstream.upstream_timeout = Duration::from_millis(100);
        self.upstream.idle_timeout = Duration::from_millis(100);
    }
}

async fn loopback() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}
