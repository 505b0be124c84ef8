//! The way to the backend.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use oncegate_tower::{RequestBody, UpstreamError};
use tokio::time::Instant;
use tower_service::Service;

use self::{
    body::End,
    connector::Connector,
    pool::Pool,
    response_head::Afterwards,
    upload::{Upload, UploadBody},
};
use super::{
    alarm::Alarm,
    client_body::{ClientBody, Expectation},
    tunnel::Tunnels,
};

mod address;
mod body;
mod connector;
mod failure;
mod pool;
mod response_head;
mod upload;

pub(crate) use self::{address::UpstreamAddress, body::UpstreamBody};

/// How long the upstream may take to ask for a body whose client waits to be asked, before it gets it anyway: many a
/// server does not know `Expect` (RFC 9110 10.1.1 forbids to wait for ever).
const CONTINUE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Most idle connections kept.
const IDLE_CONNECTIONS_MAX: usize = 1024;

/// How the upstream is treated where the route does not say.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long a connection may take, with the look-up of the name.
    pub(crate) connect_timeout: Duration,
    /// How long the head of the response may take, counted from the last part of the request that was taken.
    pub(crate) upstream_timeout: Duration,
    /// How long each part of the response body may take, and, whatever the route says, each part of the request.
    pub(crate) idle_timeout: Duration,
    /// How long an idle connection may still be used.
    ///
    /// A server that closes an idle connection just as a request is sent on it leaves nobody knowing whether it was
    /// executed. So this is shorter than the shortest keep-alive of common servers (Gunicorn 2 s, Node and Uvicorn
    /// 5 s); a new connection within a data centre costs less than an unknown outcome.
    pub(crate) idle_connection: Duration,
}

/// A client of one backend: keeps connections, applies the header rules for responses, tunnels upgrades, and never
/// sends a request twice unless not one byte of it was sent.
///
/// The route's timeouts hold where the body knows its [route](RequestBody::route). Dropping the response future
/// or the response body closes the connection that it uses. The body of a request may fail: what was sent of it then
/// never looks whole to the backend.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: Pool,
    address: UpstreamAddress,
    settings: Settings,
    tunnels: Tunnels,
}

/// A request on its way.
struct Sent {
    request: Request<UploadBody>,
    client_upgrade: Option<OnUpgrade>,
    idle_timeout: Duration,
    head: HeadWait,
}

/// The wait for a response head, however long the request takes to be sent.
struct HeadWait {
    upload: Option<Arc<Upload>>,
    upstream_timeout: Duration,
    /// Until when the upstream may ask for the body, while that is to be waited for.
    asks_until: Option<Instant>,
    /// Counted from the last part of the request that was known to be taken.
    deadline: Option<Instant>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            upstream_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            idle_connection: Duration::from_secs(1),
        }
    }
}

// === impl Upstream ===

impl Upstream {
    /// A client of the backend at this address; connects when it is needed.
    pub(crate) fn new(address: &UpstreamAddress, settings: Settings) -> Self {
        let connector = Connector::new(settings.connect_timeout, settings.idle_timeout);
        let pool = Pool::new(connector, address.uri(), (settings.idle_connection, IDLE_CONNECTIONS_MAX));
        let shared = Shared { pool, address: address.clone(), settings, tunnels: Tunnels::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The connections that were switched to another protocol and are still open.
    pub(crate) fn tunnels(&self) -> &Tunnels {
        &self.shared.tunnels
    }
}

impl Service<Request<RequestBody<ClientBody>>> for Upstream {
    type Response = Response<UpstreamBody>;
    type Error = UpstreamError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, UpstreamError>> + Send>>;

    /// Always ready: connections are opened as they are needed.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<ClientBody>>) -> Self::Future {
        Box::pin(self.shared.send(request).response(Arc::clone(&self.shared)))
    }
}

// === impl Shared ===

impl Shared {
    fn send(&self, mut request: Request<RequestBody<ClientBody>>) -> Sent {
        let (upstream_timeout, idle_timeout) =
            request.body().route().map_or((self.settings.upstream_timeout, self.settings.idle_timeout), |route| {
                (route.upstream_timeout, route.idle_timeout)
            });
        self.aim(&mut request);
        let upload = upload(&mut request);
        let client_upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let request = request.map(|body| UploadBody::new(body, upload.clone()));
        Sent { request, client_upgrade, idle_timeout, head: HeadWait::new(upload, upstream_timeout) }
    }

    /// Makes it a request to our address, with the path and query as the client wrote them, byte for byte.
    fn aim<B>(&self, request: &mut Request<B>) {
        *request.version_mut() = Version::HTTP_11;
        let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = Uri::from(self.address.below_base(path));
        if !request.headers().contains_key(header::HOST) {
            request.headers_mut().insert(header::HOST, self.address.host_header());
        }
    }
}

/// Sees to the body, if there is one.
fn upload(request: &mut Request<RequestBody<ClientBody>>) -> Option<Arc<Upload>> {
    if request.body().is_end_stream() {
        return None;
    }
    frame(request);
    let expectation = request.extensions_mut().remove::<Expectation>();
    let is_awaited = expectation.is_some_and(|expectation| !expectation.is_met());
    let upload = Arc::new(Upload::new(is_awaited));
    if is_awaited {
        expect_continue(request, &upload);
    }
    Some(upload)
}

/// Says how the body is framed where hyper would guess wrong: it takes a GET without `Content-Length` for one without
/// a body, and gives a body of known length no trailers.
fn frame(request: &mut Request<RequestBody<ClientBody>>) {
    let has_length = request.body().size_hint().exact().is_some();
    if !has_length || request.headers().contains_key(header::TRAILER) {
        request.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Lets the upstream decide whether the client is to send its body.
fn expect_continue<B>(request: &mut Request<B>, upload: &Arc<Upload>) {
    request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-continue"));
    let upload = Arc::clone(upload);
    hyper::ext::on_informational(request, move |informational| {
        if informational.status() == StatusCode::CONTINUE {
            upload.open();
        }
    });
}

// === impl Sent ===

impl Sent {
    async fn response(mut self, shared: Arc<Shared>) -> Result<Response<UpstreamBody>, UpstreamError> {
        let (mut response, lent) = shared.pool.send(self.request, |cx, alarm| self.head.poll(cx, alarm)).await?;
        let afterwards = response_head::clean(&mut response)?;
        if afterwards == Afterwards::Switched {
            let client = self.client_upgrade.take().ok_or_else(failure::unasked_upgrade)?;
            shared.tunnels.open(client, hyper::upgrade::on(&mut response));
        }
        // RFC 9112 9.5: who gets an error and sees the connection close SHOULD stop sending. And a body that was not
        // asked for before the answer never will be.
        let is_refusal = afterwards == Afterwards::Closed && response.status().as_u16() >= 400;
        let end = match self.head.upload {
            Some(upload) if (is_refusal || upload.is_closed()) && upload.cease() => End::Refuses(upload),
            upload if afterwards == Afterwards::Kept => End::Keeps(upload),
            _ => End::Closes,
        };
        Ok(response.map(|body| UpstreamBody::new(body, self.idle_timeout, lent, end)))
    }
}

// === impl HeadWait ===

impl HeadWait {
    fn new(upload: Option<Arc<Upload>>, upstream_timeout: Duration) -> Self {
        let is_awaited = upload.as_ref().is_some_and(|upload| upload.is_closed());
        let asks_until = is_awaited.then(|| Instant::now() + CONTINUE_WAIT_MAX);
        Self { upload, upstream_timeout, asks_until, deadline: None }
    }

    /// Ready when it has taken too long.
    fn poll(&mut self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<UpstreamError> {
        if let (Some(asks_until), Some(upload)) = (self.asks_until, &self.upload) {
            if upload.is_closed() {
                ready!(alarm.poll_at(asks_until, cx));
                upload.open();
            }
            self.asks_until = None;
        }
        loop {
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.upstream_timeout);
            ready!(alarm.poll_at(deadline, cx));
            let later = self.later(deadline);
            if later.is_none() {
                return Poll::Ready(UpstreamError::timeout());
            }
            self.deadline = later;
        }
    }

    /// The new deadline, if parts of the request have gone out since, or the client is the one to wait for.
    fn later(&self, passed: Instant) -> Option<Instant> {
        let deadline = self.upload.as_ref()?.last_part() + self.upstream_timeout;
        (deadline > passed).then_some(deadline)
    }
}
