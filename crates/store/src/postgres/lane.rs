//! A lane: a queue, a task and a connection, which together are group commit.
//!
//! While one batch is on its way, verbs queue up; what has queued up is the next batch. There is no timer: a verb
//! that arrives alone is sent alone, at once. All verbs of one record take the same lane, in the order in which they
//! were asked.

use std::{collections::VecDeque, sync::Arc};

use oncegate_core::{ErrorKind, StoreError};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    address::Address,
    batch::Batch,
    error::Failure,
    link::Link,
    options::Options,
    verb::{Job, Pending, Statement, Verb},
};
use crate::observer::Event;

// === types ===

/// The near end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    sender: mpsc::Sender<Box<dyn Job>>,
    /// The places that only verbs which do without their caller may take.
    reserve: usize,
}

/// The far end.
struct Carrier {
    receiver: mpsc::Receiver<Box<dyn Job>>,
    /// Waiting for another verb of the same record to come back.
    postponed: VecDeque<Box<dyn Job>>,
    /// To be asked again, and when.
    later: Vec<(Instant, Box<dyn Job>)>,
    link: Link,
    options: Options,
}

/// After how many locks that were not given a batch is not divided any more. One record that somebody keeps costs
/// one for each halving; more means that the whole table is locked, and each further part would wait as long.
const LOCK_TIMEOUTS_MAX: usize = 9;

/// How often the runtime is given a turn before a batch is sent.
const YIELDS_MAX: usize = 64;

/// How a batch begins that has statements to be planned.
pub(super) const BEGIN: &str = include_str!("begin.sql");

/// How one begins that only calls functions.
const BEGIN_PLANNED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

// === impl Lane ===

impl Lane {
    /// Starts a task on the present runtime; it ends when the lane is dropped and everything queued is done.
    pub(super) fn start(address: Arc<Address>, options: Options) -> Self {
        let queue_max = options.queue_max.max(1);
        let (sender, receiver) = mpsc::channel(queue_max);
        let link = Link::new(address, options.reply_timeout);
        let carrier = Carrier { receiver, postponed: VecDeque::new(), later: Vec::new(), link, options };
        tokio::spawn(carrier.run());
        Self { sender, reserve: queue_max / 4 }
    }

    /// Queues a verb and waits for its answer. It takes its place in the queue at the first poll.
    pub(super) async fn ask<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        if V::NEEDS_CALLER && self.sender.capacity() <= self.reserve {
            return Err(overloaded(self.sender.max_capacity()));
        }
        let (pending, answer) = Pending::new(verb);
        self.sender.try_send(Box::new(pending)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => overloaded(self.sender.max_capacity()),
            mpsc::error::TrySendError::Closed(_) => ended(),
        })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn overloaded(places: usize) -> StoreError {
    StoreError::new(ErrorKind::Overloaded, format!("too many verbs are waiting for the store: at most {places} may"))
}

fn ended() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the store's task has ended: reopen the store")
}

// === impl Carrier ===

impl Carrier {
    async fn run(mut self) {
        let mut answered = 0;
        while let Some(first) = self.next().await {
            self.others(answered).await;
            let batch = self.gather(first);
            answered = batch.len();
            self.options.observer.observe(&Event::Batch { verbs: answered });
            self.carry_out(batch).await;
        }
    }

    /// Lets those run who were just answered: they often come back at once, and then join the next batch instead of
    /// the one after it. A batch of twice as many costs the server little more. Nobody is waited for: an idle runtime
    /// comes straight back, and who was answered alone is not given another turn.
    async fn others(&self, answered: usize) {
        let expected = answered.min(self.options.batch_max).saturating_sub(1);
        for _ in 0..expected.min(YIELDS_MAX) {
            if self.receiver.len() >= expected {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next job that anybody wants; waits for one.
    async fn next(&mut self) -> Option<Box<dyn Job>> {
        loop {
            if let Some(job) = self.ready() {
                return Some(job);
            }
            let due = self.later.iter().map(|(due, _)| *due).min();
            match due {
                None => {
                    let job = self.receiver.recv().await?;
                    self.postponed.push_back(job);
                }
                // Nobody else will come, but what is left is still finished.
                Some(due) if self.receiver.is_closed() && self.receiver.is_empty() => sleep_until(due).await,
                Some(due) => tokio::select! {
                    job = self.receiver.recv() => self.postponed.extend(job),
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// The next job that anybody wants, if there is one now.
    fn ready(&mut self) -> Option<Box<dyn Job>> {
        let now = Instant::now();
        loop {
            let due = self.later.iter().position(|(due, _)| *due <= now).map(|index| self.later.swap_remove(index).1);
            let job = due.or_else(|| self.postponed.pop_front()).or_else(|| self.receiver.try_recv().ok())?;
            if job.is_wanted() {
                return Some(job);
            }
        }
    }

    /// Adds whatever else is ready, each record once.
    fn gather(&mut self, first: Box<dyn Job>) -> Batch {
        let mut batch = Batch::of([first]);
        let mut postponed = VecDeque::new();
        let Options { batch_max, batch_bytes_max, .. } = self.options;
        while batch.len() < batch_max && batch.bytes() < batch_bytes_max && postponed.len() < batch_max {
            let Some(job) = self.ready() else { break };
            if let Err(job) = batch.add(job) {
                postponed.push_back(job);
            }
        }
        postponed.append(&mut self.postponed);
        self.postponed = postponed;
        batch
    }

    /// Sends a batch; one that is refused is divided, until the verb that is to blame stands alone and fails alone.
    async fn carry_out(&mut self, batch: Batch) {
        let mut parts = vec![batch];
        let mut lock_timeouts = 0;
        while let Some(part) = parts.pop() {
            let groups = part.into_groups();
            let statements: Vec<Statement<'_>> =
                groups.iter().map(|group| group.statement(self.options.clock_offset.span())).collect();
            let is_planned = statements.iter().all(|statement| statement.is_planned);
            let begin = if is_planned { BEGIN_PLANNED } else { BEGIN };
            let outcome = self.link.transact(begin, &statements).await;
            drop(statements);
            let again: Vec<Box<dyn Job>> = match outcome {
                Ok(rows) => groups.into_iter().zip(&rows).flat_map(|(group, rows)| group.settle(rows)).collect(),
                Err(Failure::Conflict(_)) => groups.into_iter().flat_map(|group| group.again()).collect(),
                Err(failure @ Failure::Lost(_)) => {
                    let error = || failure.to_store_error();
                    groups.into_iter().flat_map(|group| group.after_loss(&error)).collect()
                }
                Err(failure @ (Failure::Refused(_) | Failure::NotConnected(_))) => {
                    let jobs: Vec<_> = groups.into_iter().flat_map(|group| group.jobs()).collect();
                    lock_timeouts += usize::from(failure.is_lock_timeout());
                    if lock_timeouts > LOCK_TIMEOUTS_MAX {
                        let rest = parts.drain(..).flat_map(Batch::into_groups).flat_map(|group| group.jobs());
                        jobs.into_iter().chain(rest).for_each(|job| job.fail(failure.to_store_error()));
                    } else {
                        parts.extend(divide(jobs, &failure));
                    }
                    Vec::new()
                }
            };
            let now = Instant::now();
            self.later.extend(again.into_iter().map(|job| (now + job.pause(), job)));
        }
    }
}

/// Halves of what was refused; nothing, and every caller is told, where dividing cannot help.
fn divide(mut jobs: Vec<Box<dyn Job>>, failure: &Failure) -> Vec<Batch> {
    if !failure.concerns_one_verb() || jobs.len() == 1 {
        jobs.into_iter().for_each(|job| job.fail(failure.to_store_error()));
        return Vec::new();
    }
    let second = jobs.split_off(jobs.len() / 2);
    vec![Batch::of(second), Batch::of(jobs)]
}
