//! A burst: many repeats that start at the same instant.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use humantime::format_duration;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::connection::{Answer, Connection, Loaded, Sent};

/// Longest wait for all connections before a burst is released. A server with a short listen backlog drops what does
/// not fit, and the system tries again after 1 s, then 2 s; who is later than this sends alone, as soon as it can.
const WARM_UP: Duration = Duration::from_secs(3);

/// Connections that are being opened at the same time, and the pause after each. A server that accepts promptly then
/// never has more in its listen backlog than the 5 or 10 of a development server; what overflows there is answered late
/// or never, since we believe to be connected and the server does not.
const OPENING_MAX: usize = 4;
const OPENING_PAUSE: Duration = Duration::from_millis(1);

/// How long the first try to connect may take; each further one may take twice as long. The system would repeat a dropped
/// attempt only after 1 s, when a short backlog has long been worked off.
const OPENING_TRY: Duration = Duration::from_millis(250);

/// The pause before a connection is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// An ending, with the connection if it can be used again.
type Answered = (Attempt, Option<Connection>);

/// Where a burst is sent.
#[derive(Clone, Debug)]
pub(super) struct Target {
    address: SocketAddr,
    /// Longest wait for a connection, and then for an answer.
    timeout: Duration,
    /// Longest wait for the slowest connection of a burst.
    warm_up: Duration,
    opening: Arc<Semaphore>,
}

/// One request of a burst.
pub(super) struct Repeat {
    pub(super) request: Request<Full<Bytes>>,
    /// Hang up when there is no complete answer by then.
    pub(super) hang_up_after: Option<Duration>,
}

/// What came of one repeat.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) ending: Ending,
    /// When the request was released; `None` when there was no connection.
    pub(super) sent_at: Option<Instant>,
    /// Whether its connection was not open when the burst was released, so that it did not take part in the race.
    pub(super) is_late: bool,
}

/// How one repeat ended.
#[derive(Debug)]
pub(super) enum Ending {
    Answered(Answer),
    /// We hung up, as planned.
    HungUp,
    /// No connection: nothing was sent.
    NotConnected(String),
    /// Sent, but not answered in time, or not whole.
    Failed(String),
}

/// A repeat whose request is written and held.
struct Warm {
    loaded: Loaded,
    repeat: Repeat,
}

/// Sends all repeats at the same instant and waits for all endings, which come in no particular order.
///
/// Connections are taken from `idle` or opened; those that the server keeps open are put back. Dropping the future
/// hangs up on everything.
pub(super) async fn burst(target: &Target, idle: &mut Vec<Connection>, repeats: Vec<Repeat>) -> Vec<Attempt> {
    let mut warming = JoinSet::new();
    for repeat in repeats {
        warming.spawn(target.clone().warm(idle.pop(), repeat));
    }
    let (mut warm, mut attempts) = (Vec::new(), Vec::new());
    let all_warm = async {
        while let Some(warmed) = warming.join_next().await {
            match joined(warmed) {
                Ok(repeat) => warm.push(repeat),
                Err(failure) => attempts.push(Attempt::not_connected(failure)),
            }
        }
    };
    // Who is too slow is not waited for.
    let _ = timeout(target.warm_up, all_warm).await;

    let mut answering = release(target, warm, &mut warming);
    while let Some(warmed) = warming.join_next().await {
        match joined(warmed) {
            Ok(Warm { loaded, repeat }) => {
                answering.spawn(target.clone().answer(loaded.release(), repeat.hang_up_after, true));
            }
            Err(failure) => attempts.push(Attempt::not_connected(failure)),
        }
    }
    for (attempt, connection) in answering.join_all().await {
        attempts.push(attempt);
        idle.extend(connection);
    }
    attempts
}

/// The instant. Between the first and the last request there is nothing but their system calls.
///
/// A connection that the server closed while it waited is warmed again, as a late one.
fn release(target: &Target, mut warm: Vec<Warm>, warming: &mut JoinSet<Result<Warm, String>>) -> JoinSet<Answered> {
    warm.sort_by_key(|warm| warm.loaded.opened_at());
    let (closed, open): (Vec<Warm>, Vec<Warm>) = warm.into_iter().partition(|warm| warm.loaded.is_closed());
    let sent: Vec<_> = open.into_iter().map(|Warm { loaded, repeat }| (loaded.release(), repeat)).collect();

    for Warm { repeat, .. } in closed {
        warming.spawn(target.clone().warm(None, repeat));
    }
    let mut answering = JoinSet::new();
    for (sent, repeat) in sent {
        answering.spawn(target.clone().answer(sent, repeat.hang_up_after, false));
    }
    answering
}

/// Passes a panic on: the tasks are never aborted.
fn joined<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

// === impl Target ===

impl Target {
    pub(super) fn new(address: SocketAddr, timeout: Duration) -> Self {
        Self { address, timeout, warm_up: WARM_UP, opening: Arc::new(Semaphore::new(OPENING_MAX)) }
    }

    /// Gets a connection, the idle one if the server has kept it, and loads it with the request.
    async fn warm(self, idle: Option<Connection>, repeat: Repeat) -> Result<Warm, String> {
        if let Some(connection) = idle
            && let Some(loaded) = connection.load(repeat.request.clone()).await
        {
            return Ok(Warm { loaded, repeat });
        }
        match timeout(self.timeout, self.open(&repeat.request)).await {
            Ok(loaded) => loaded.map(|loaded| Warm { loaded, repeat }),
            Err(_) => Err(format!("cannot connect: not accepted within {}", format_duration(self.timeout))),
        }
    }

    /// Opens a connection and loads it. A server that is slow to accept is tried without end, one that refuses, or hangs
    /// up before anything was sent, for the length of the warm-up.
    async fn open(&self, request: &Request<Full<Bytes>>) -> Result<Loaded, String> {
        let (started, mut patience) = (Instant::now(), OPENING_TRY);
        loop {
            let turn = self.opening.acquire().await;
            let opened = timeout(patience, Connection::open(self.address)).await;
            sleep(OPENING_PAUSE).await;
            drop(turn);
            let failure = match opened {
                Ok(Ok(connection)) => match connection.load(request.clone()).await {
                    Some(loaded) => return Ok(loaded),
                    None => Some("the server hangs up before a request is sent".to_owned()),
                },
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => {
                    patience = patience.saturating_mul(2);
                    None
                }
            };
            match failure {
                Some(failure) if started.elapsed() > self.warm_up => return Err(format!("cannot connect: {failure}")),
                Some(_) | None => sleep(RECONNECT_PAUSE).await,
            }
        }
    }

    /// Waits for the answer, as long as the repeat is meant to.
    async fn answer(self, sent: Sent, hang_up_after: Option<Duration>, is_late: bool) -> Answered {
        let sent_at = Some(sent.sent_at);
        let limit = hang_up_after.unwrap_or(self.timeout);
        let left = limit.saturating_sub(sent.sent_at.elapsed());
        let (ending, connection) = match timeout(left, sent.answer()).await {
            Ok(Ok((answer, connection))) => (Ending::Answered(answer), connection.kept().await),
            Ok(Err(error)) => (Ending::Failed(format!("{:#}", anyhow::Error::from(error))), None),
            Err(_) if hang_up_after.is_some() => (Ending::HungUp, None),
            Err(_) => (Ending::Failed(format!("no complete answer within {}", format_duration(limit))), None),
        };
        (Attempt { ending, sent_at, is_late }, connection)
    }
}

// === impl Attempt ===

impl Attempt {
    fn not_connected(failure: String) -> Self {
        Self { ending: Ending::NotConnected(failure), sent_at: None, is_late: true }
    }
}

#[cfg(test)]
mod tests;
