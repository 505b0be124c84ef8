//! One line for each request, on standard output: what was asked for, and what became of it.
//!
//! Writing never holds a request up: what is to be written is put into a list, and a thread of its own takes the list,
//! makes lines of it and writes them. A list that is full, since nobody reads what is written, takes no more; what it
//! could not take is counted.

use std::{
    io::Write,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use http::{Method, Request, Response, Uri};
use oncegate_core::Timestamp;
use oncegate_tower::{Account, Outcome};
use prometheus_client::metrics::counter::Counter;

use crate::records::desk;

mod line;
mod trace;

use self::trace::TraceId;

// === types ===

/// The near end; clones share one list.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog(Arc<Shared>);

/// The far end. Dropping it writes what is left.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: thread::Thread,
    ended: mpsc::Receiver<()>,
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What is written, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `None`: there is no such log.
    pub(crate) format: Option<Format>,
    /// Whether keys and scopes are written in full.
    pub(crate) full_keys: bool,
}

/// A request under way; dropped without an answer it is one whose client left.
#[derive(Debug)]
pub(crate) struct Entry {
    log: AccessLog,
    seen: Option<Seen>,
}

/// All that a line tells.
#[derive(Debug)]
struct Seen {
    at: Timestamp,
    began: Instant,
    method: Method,
    target: Uri,
    trace: Option<TraceId>,
    account: Account,
    /// `None`: the client left before.
    answer: Option<(Outcome, u16)>,
    duration: Duration,
}

#[derive(Debug)]
struct Shared {
    list: Mutex<Vec<Seen>>,
    is_stopping: AtomicBool,
    dropped: Counter,
}

/// Lines that wait for the writer at most: more than a second's requests.
const LINES_MAX: usize = 32 * 1024;

/// How long a line waits for the writer.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the end of the process waits for whoever reads the log.
const STOP_MAX: Duration = Duration::from_secs(1);

// === impl AccessLog ===

impl AccessLog {
    /// Starts the writer. `dropped` counts what could not be written.
    pub(crate) fn start(
        settings: Settings,
        out: impl Write + Send + 'static,
        dropped: Counter,
    ) -> Option<(Self, Writer)> {
        let format = settings.format?;
        let shared = Arc::new(Shared { list: Mutex::default(), is_stopping: AtomicBool::new(false), dropped });
        let (end, ended) = mpsc::channel();
        let sink = Sink { shared: Arc::clone(&shared), format, full_keys: settings.full_keys, out };
        let spawned = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            sink.run();
            drop(end);
        });
        match spawned {
            Ok(thread) => {
                let writer = Writer { shared: Arc::clone(&shared), thread: thread.thread().clone(), ended };
                Some((Self(shared), writer))
            }
            Err(error) => {
                tracing::error!(%error, "there is no access log: its thread cannot be started");
                None
            }
        }
    }

    /// A request came in; what becomes of it will be noted in its extensions.
    pub(crate) fn enter<B>(&self, request: &mut Request<B>) -> Entry {
        let account = Account::default();
        request.extensions_mut().insert(account.clone());
        let seen = Seen {
            at: desk::now(),
            began: Instant::now(),
            method: request.method().clone(),
            target: request.uri().clone(),
            trace: TraceId::of(request.headers()),
            account,
            answer: None,
            duration: Duration::ZERO,
        };
        Entry { log: self.clone(), seen: Some(seen) }
    }
}

// === impl Entry ===

impl Entry {
    /// The head of its answer is on its way.
    pub(crate) fn answered<B>(mut self, response: &Response<B>) {
        if let Some(seen) = &mut self.seen {
            seen.answer = Some((Outcome::of(response), response.status().as_u16()));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut seen) = self.seen.take() else { return };
        seen.duration = seen.began.elapsed();
        self.log.0.put(seen);
    }
}

// === impl Shared ===

impl Shared {
    fn put(&self, seen: Seen) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < LINES_MAX {
            list.push(seen);
        } else {
            self.dropped.inc();
        }
    }

    /// What waits, in exchange for an empty list.
    fn take(&self, empty: Vec<Seen>) -> Vec<Seen> {
        mem::replace(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner), empty)
    }
}

// === impl Writer ===

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.thread.unpark();
        // Whoever should read the log may not: then the last lines are lost, and the process ends all the same.
        let _ = self.ended.recv_timeout(STOP_MAX);
    }
}

/// What the thread works with.
struct Sink<W> {
    shared: Arc<Shared>,
    format: Format,
    full_keys: bool,
    out: W,
}

impl<W: Write> Sink<W> {
    fn run(mut self) {
        let (mut spare, mut text) = (Vec::new(), String::new());
        loop {
            // Asked before the list is taken: whoever stops has put everything there.
            let is_stopping = self.shared.is_stopping.load(Ordering::SeqCst);
            let mut list = self.shared.take(spare);
            for seen in &list {
                line::write(&mut text, seen, self.format, self.full_keys);
            }
            if !text.is_empty() && self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err() {
                self.shared.dropped.inc_by(u64::try_from(list.len()).unwrap_or(u64::MAX));
            }
            text.clear();
            list.clear();
            spare = list;
            if is_stopping {
                return;
            }
            thread::park_timeout(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests;
