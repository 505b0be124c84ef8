//! Connections to the backend, and which of them a request gets.
//!
//! hyper-util's pooled client is made for many hosts: it hashes the address twice for every request, and is a sixth of
//! what passing a request through costs. There is one backend here, so an idle connection is the last of a list.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, Uri};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use oncegate_tower::{BoxError, UpstreamError};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::{super::alarm::Alarm, connector::Connector, failure, upload::UploadBody};

/// Makes connections, and keeps those that are idle.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    connector: Connector,
    address: Uri,
    idle: Arc<IdleConnections>,
}

#[derive(Debug)]
struct IdleConnections {
    list: Mutex<List>,
    /// How long one may still be used.
    age_max: Duration,
    length_max: usize,
}

#[derive(Debug, Default)]
struct List {
    /// Those used last at the back.
    connections: VecDeque<(Connection, Instant)>,
    is_reaped: bool,
}

/// What belongs to one connection.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<UploadBody>,
    /// Kept from request to request: pushing a timer further is much cheaper than setting up another.
    alarm: Alarm,
}

/// A connection while it serves one request. Dropped it is closed, unless it was [kept](Self::keep).
#[derive(Debug)]
pub(super) struct Lent {
    connection: Connection,
    idle: Arc<IdleConnections>,
}

// === impl Pool ===

impl Pool {
    /// `idle_max`: how long a connection may lie idle, and how many may.
    pub(super) fn new(connector: Connector, address: Uri, (age_max, length_max): (Duration, usize)) -> Self {
        let idle = IdleConnections { list: Mutex::default(), age_max, length_max };
        Self { connector, address, idle: Arc::new(idle) }
    }

    /// Sends a request, and another time only where hyper hands it back: then its connection had closed before one
    /// byte of it was sent. `wait` waits for the response head, with the timer of the connection.
    ///
    /// Dropping the future closes the connection.
    pub(super) async fn send<W>(
        &self,
        mut request: Request<UploadBody>,
        mut wait: W,
    ) -> Result<(Response<Incoming>, Lent), UpstreamError>
    where
        W: FnMut(&mut Context<'_>, &mut Alarm) -> Poll<UpstreamError>,
    {
        loop {
            let (mut lent, is_used) = match self.idle.take() {
                Some(connection) => (self.lend(connection), true),
                None => (self.lend(self.connect().await.map_err(failure::of_connection)?), false),
            };
            let mut sent = std::pin::pin!(lent.connection.sender.try_send_request(request));
            let alarm = &mut lent.connection.alarm;
            let answered = std::future::poll_fn(|cx| match sent.as_mut().poll(cx) {
                Poll::Ready(answered) => Poll::Ready(Ok(answered)),
                Poll::Pending => wait(cx, alarm).map(Err),
            });
            match answered.await? {
                Ok(response) => return Ok((response, lent)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) if is_used => request = unsent,
                    unsent => return Err(failure::of_request(error.into_error(), unsent.is_none())),
                },
            }
        }
    }

    fn lend(&self, connection: Connection) -> Lent {
        Lent { connection, idle: Arc::clone(&self.idle) }
    }

    async fn connect(&self) -> Result<Connection, BoxError> {
        let socket = self.connector.clone().call(self.address.clone()).await?;
        let (sender, connection) = http1::handshake(socket).await?;
        tokio::spawn(async move {
            // Whoever uses it learns of its end by its own request.
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "upstream connection failed");
            }
        });
        Ok(Connection { sender, alarm: Alarm::default() })
    }
}

// === impl IdleConnections ===

impl IdleConnections {
    /// The one used last, if one is to be had. One that is still finishing its last request is passed over.
    fn take(&self) -> Option<Connection> {
        let mut list = self.list();
        let at = list.connections.iter().rposition(|(connection, _)| connection.sender.is_ready())?;
        let (connection, since) = list.connections.remove(at)?;
        // The one used last is too old: so are all.
        (since.elapsed() < self.age_max).then_some(connection)
    }

    fn put(self: &Arc<Self>, connection: Connection) {
        let mut list = self.list();
        if list.connections.len() == self.length_max {
            list.connections.pop_front();
        }
        list.connections.push_back((connection, Instant::now()));
        if !std::mem::replace(&mut list.is_reaped, true) {
            tokio::spawn(Arc::clone(self).reap());
        }
    }

    /// Closes what nobody used for too long, until none is left.
    async fn reap(self: Arc<Self>) {
        loop {
            sleep(self.age_max).await;
            let mut list = self.list();
            list.connections
                .retain(|(connection, since)| !connection.sender.is_closed() && since.elapsed() < self.age_max);
            if list.connections.is_empty() {
                list.is_reaped = false;
                return;
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().expect("nothing panics while it holds this lock")
    }
}

// === impl Lent ===

impl Lent {
    /// The connection's timer, free for the next wait.
    pub(super) fn alarm(&mut self) -> &mut Alarm {
        &mut self.connection.alarm
    }

    /// Keeps the connection for another request. Only after the last byte of the request has been handed over and the
    /// last byte of the response has been taken.
    pub(super) fn keep(self) {
        self.idle.put(self.connection);
    }
}
