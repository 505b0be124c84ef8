//! Verbs on their way to a thread, and the answers on their way back.

use std::{io, thread};

use oncegate_core::{ErrorKind, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{error::Failure, session::Session, worker::Worker};

// === types ===

/// One verb of the contract, as a thread carries it out.
pub(super) trait Verb: Send + 'static {
    /// What its caller is told.
    type Answer: Send;

    /// Whether it is worth nothing once its caller is gone. Such a verb is then skipped, and it is the
    /// first to be refused when the queue fills: what ends an execution must still find room.
    const NEEDS_CALLER: bool = false;

    /// Carries it out inside the session's transaction. It may be asked twice: again when the
    /// transaction was rolled back for the sake of another verb.
    fn apply(&self, session: &Session<'_>) -> Result<Self::Answer, Failure>;

    /// How many bytes of payload it writes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A [`Verb`] whose type a queue need not know.
pub(super) trait Job: Send {
    /// Carries the verb out and keeps its answer. An error says that the transaction cannot go on.
    fn apply(&mut self, session: &Session<'_>) -> Result<(), rusqlite::Error>;
    /// Puts an error in the place of the answer.
    fn fail(&mut self, error: StoreError);
    /// Tells the caller, if it is still there.
    fn answer(self: Box<Self>);
    /// See [`Verb::bytes`].
    fn bytes(&self) -> usize;
}

/// A bounded queue and the thread behind it.
#[derive(Debug)]
pub(super) struct Queue {
    /// `None` only while dropping.
    sender: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
    /// The places that only verbs which do without their caller may take.
    reserve: usize,
}

struct Pending<V: Verb> {
    verb: V,
    outcome: Option<Result<V::Answer, StoreError>>,
    caller: oneshot::Sender<Result<V::Answer, StoreError>>,
}

// === impl Queue ===

impl Queue {
    /// Starts a thread behind a queue of `queue_max` places.
    pub(super) fn start(name: &str, queue_max: usize, worker: Worker) -> io::Result<Self> {
        let queue_max = queue_max.clamp(1, Semaphore::MAX_PERMITS);
        let (sender, receiver) = mpsc::channel(queue_max);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || worker.run(receiver))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), reserve: queue_max / 4 })
    }

    /// Queues a verb and waits for its answer. It takes its place in the queue at the first poll.
    pub(super) async fn ask<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let (caller, answer) = oneshot::channel();
        self.send(Pending { verb, outcome: None, caller })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    fn send<V: Verb>(&self, pending: Pending<V>) -> Result<(), StoreError> {
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        if V::NEEDS_CALLER && sender.capacity() <= self.reserve {
            return Err(overloaded(sender.max_capacity()));
        }
        sender.try_send(Box::new(pending)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => overloaded(sender.max_capacity()),
            mpsc::error::TrySendError::Closed(_) => ended(),
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Without senders the thread ends after what is queued.
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the store had panicked");
        }
    }
}

fn overloaded(places: usize) -> StoreError {
    StoreError::new(ErrorKind::Overloaded, format!("too many verbs are waiting for the store: at most {places} may"))
}

fn ended() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the store's thread has ended: reopen the store")
}

// === impl Pending ===

impl<V: Verb> Job for Pending<V> {
    fn apply(&mut self, session: &Session<'_>) -> Result<(), rusqlite::Error> {
        if V::NEEDS_CALLER && self.caller.is_closed() {
            return Ok(());
        }
        match self.verb.apply(session) {
            Ok(answer) => self.outcome = Some(Ok(answer)),
            Err(Failure::Judged(error)) => self.outcome = Some(Err(error)),
            Err(Failure::Sqlite(error)) => return Err(error),
        }
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // A caller that is gone has nobody to tell.
            drop(self.caller.send(outcome));
        }
    }

    fn bytes(&self) -> usize {
        self.verb.bytes()
    }
}
