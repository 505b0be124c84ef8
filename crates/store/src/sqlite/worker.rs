//! The thread that carries verbs out: many in one transaction, answered after its commit.

use std::{path::PathBuf, sync::Arc};

use oncegate_core::Clock;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::mpsc;

use super::{
    error::{concerns_one_verb, store_error},
    options::Options,
    queue::Job,
    session::Session,
};

// === types ===

/// A connection and how its verbs are put into transactions.
pub(super) struct Worker {
    connection: Connection,
    path: PathBuf,
    behavior: TransactionBehavior,
    clock: Arc<dyn Clock>,
    batch_max: usize,
    batch_bytes_max: usize,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(connection: Connection, path: PathBuf, behavior: TransactionBehavior, options: &Options) -> Self {
        let clock = Arc::clone(&options.clock);
        let batch_max = options.batch_max.max(1);
        Self { connection, path, behavior, clock, batch_max, batch_bytes_max: options.batch_bytes_max }
    }

    /// Gives each verb a transaction of its own: for reads, where there is no commit to share.
    pub(super) fn alone(self) -> Self {
        Self { batch_max: 1, ..self }
    }

    /// Works until all senders are gone and the queue is empty.
    pub(super) fn run(self, mut receiver: mpsc::Receiver<Box<dyn Job>>) {
        let mut jobs = Vec::with_capacity(self.batch_max);
        while receiver.blocking_recv_many(&mut jobs, self.batch_max) > 0 {
            while !jobs.is_empty() {
                let batch = self.batch_length(&jobs);
                self.carry_out(&mut jobs[..batch]);
                jobs.drain(..batch).for_each(Job::answer);
            }
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
    fn carry_out(&self, jobs: &mut [Box<dyn Job>]) {
        match self.transact(jobs) {
            Ok(()) => {}
            Err(error) if jobs.len() > 1 && concerns_one_verb(&error) => {
                // Nothing of the batch is stored. Alone, each is judged by itself, and a verb of two
                // statements is still applied whole or not at all. Rare, so the happy path needs no savepoints.
                jobs.chunks_mut(1).for_each(|job| self.carry_out(job));
            }
            Err(error) => {
                let error = Arc::new(error);
                jobs.iter_mut().for_each(|job| job.fail(store_error(&error, &self.path)));
            }
        }
    }

    fn transact(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        // Dropped without a commit it rolls back. This thread owns the connection, so nothing nests.
        let transaction = Transaction::new_unchecked(&self.connection, self.behavior)?;
        // The time is asked once the lock is held: what others wrote before is not in its future.
        let session = Session::new(&self.connection, self.clock.now());
        for job in jobs {
            job.apply(&session)?;
        }
        session.store_last_fence()?;
        // Without a change this writes nothing: no page is dirty, so SQLite leaves the WAL alone.
        transaction.commit()
    }
}
