//! The thread that carries verbs out: many in one transaction, answered after its commit.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use oncegate_core::Clock;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::mpsc;

use super::{
    error::{RolledBack, is_locked},
    options::Options,
    queue::Job,
    session::Session,
};
use crate::observer::{Event, Observer, Unobserved};

// === types ===

/// A connection and how its verbs are put into transactions.
pub(super) struct Worker {
    connection: Connection,
    path: PathBuf,
    behavior: TransactionBehavior,
    clock: Arc<dyn Clock>,
    batch_max: usize,
    batch_bytes_max: usize,
    busy_timeout: Duration,
    observer: Arc<dyn Observer>,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(connection: Connection, path: PathBuf, behavior: TransactionBehavior, options: &Options) -> Self {
        Self {
            connection,
            path,
            behavior,
            clock: Arc::clone(&options.clock),
            batch_max: options.batch_max.max(1),
            batch_bytes_max: options.batch_bytes_max,
            busy_timeout: options.busy_timeout,
            observer: Arc::clone(&options.observer),
        }
    }

    /// Gives each verb a transaction of its own: for reads, where there is no commit to share.
    pub(super) fn alone(self) -> Self {
        Self { batch_max: 1, observer: Arc::new(Unobserved), ..self }
    }

    /// Works until all senders are gone and the queue is empty.
    pub(super) fn run(self, mut receiver: mpsc::Receiver<Box<dyn Job>>) {
        let session = Session::new(&self.connection);
        let mut jobs = Vec::new();
        while receiver.blocking_recv_many(&mut jobs, self.batch_max) > 0 {
            self.let_others_join(&mut jobs, &mut receiver);
            while !jobs.is_empty() {
                let batch = self.batch_length(&jobs);
                self.observer.observe(&Event::Batch { verbs: batch });
                self.carry_out(&session, &mut jobs[..batch]);
                jobs.drain(..batch).for_each(Job::answer);
            }
        }
    }

    /// Where several verbs arrive together more are on their way, and each that shares this commit saves one.
    /// So callers that could run at this moment do so first. A verb that is alone waits for nobody.
    fn let_others_join(&self, jobs: &mut Vec<Box<dyn Job>>, receiver: &mut mpsc::Receiver<Box<dyn Job>>) {
        if jobs.len() > 1 {
            thread::yield_now();
            let room = self.batch_max.saturating_sub(jobs.len());
            jobs.extend(iter::from_fn(|| receiver.try_recv().ok()).take(room));
        }
    }

    /// How many of the jobs go into one transaction: at least one, and as many as its bytes allow.
    fn batch_length(&self, jobs: &[Box<dyn Job>]) -> usize {
        let sum_so_far = |sum: &mut usize, bytes| {
            *sum += bytes;
            Some(*sum)
        };
        let sums = jobs.iter().map(|job| job.bytes()).scan(0, sum_so_far);
        sums.take_while(|&bytes| bytes <= self.batch_bytes_max).count().max(1)
    }

    /// Leaves an answer or an error in every job.
    fn carry_out(&self, session: &Session<'_>, jobs: &mut [Box<dyn Job>]) {
        match self.transact(session, jobs) {
            Ok(()) => {}
            Err(reason) if jobs.len() > 1 && reason.concerns_one_verb() => {
                // Nothing of the batch is stored. Alone, each is judged by itself, and a verb of two
                // statements is still applied whole or not at all. Rare, so the usual path needs no savepoints.
                jobs.chunks_mut(1).for_each(|job| self.carry_out(session, job));
            }
            Err(reason) => jobs.iter_mut().for_each(|job| job.fail(reason.to_store_error(&self.path))),
        }
    }

    fn transact(&self, session: &Session<'_>, jobs: &mut [Box<dyn Job>]) -> Result<(), RolledBack> {
        // A panic unwinds out of every statement and of the transaction, which rolls back.
        match catch_unwind(AssertUnwindSafe(|| self.commit(session, jobs))) {
            Ok(committed) => committed.map_err(|error| RolledBack::Failed(Arc::new(error))),
            Err(_panic) => Err(RolledBack::Panicked),
        }
    }

    fn commit(&self, session: &Session<'_>, jobs: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        let transaction = self.begin()?;
        // The time is asked once the lock is held: what others wrote before is not in its future.
        session.begin(self.clock.now());
        for job in jobs {
            job.apply(session)?;
        }
        session.store_last_fence()?;
        // Without a change this writes nothing: no page is dirty, so SQLite leaves the WAL alone.
        transaction.commit()
    }

    /// Begins a transaction; dropped without a commit it rolls back. This thread owns the connection, so
    /// nothing nests.
    ///
    /// SQLite's own waiting sleeps for up to 100 ms between two looks at the lock; beside a busy process,
    /// which leaves it for less than a millisecond, that is to starve.
    fn begin(&self) -> Result<Transaction<'_>, rusqlite::Error> {
        let asked = Instant::now();
        loop {
            match Transaction::new_unchecked(&self.connection, self.behavior) {
                Err(error) if is_locked(&error) && asked.elapsed() < self.busy_timeout => {}
                begun => return begun,
            }
        }
    }
}
