//! What this gateway has acknowledged by way of the front, and PostgreSQL may not have yet.
//!
//! It is kept here until PostgreSQL has it, and [`drain`] sees to that. Its name stands in a stream of the front for the other
//! gateways, which [`rescue`] it if this one dies.

pub(super) mod clock;
pub(super) mod drain;
mod forget;
mod held;
pub(super) mod rescue;
pub(super) mod settle;
pub(super) mod take;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use oncegate_core::RecordDigest;
use tokio::sync::{Notify, watch};

use self::{clock::BackClock, forget::Leftover, held::Held};
use crate::{
    entry::Entry,
    observer::{Event, Observer},
    redis::front::Sent,
};

// === types ===

/// The outbox of one gateway.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The gateway's name, of this process and no other.
    pub(super) name: String,
    pub(super) clock: BackClock,
    held: Mutex<Held>,
    leftover: Leftover,
    /// Wakes who drains.
    wake: Notify,
    /// Up to which place all is drained.
    drained: watch::Sender<u64>,
    observer: Arc<dyn Observer>,
}

/// An entry, and which state of it that is.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) number: u64,
}

/// How many entries one gateway keeps; with more PostgreSQL is too far behind.
const ENTRIES_MAX: usize = 1 << 17;

// === impl Outbox ===

impl Outbox {
    /// One that PostgreSQL has to have within `limit`.
    pub(super) fn new(observer: Arc<dyn Observer>, limit: Duration) -> Self {
        Self {
            name: uuid::Uuid::new_v4().simple().to_string(),
            clock: BackClock::new(),
            held: Mutex::new(Held::new(limit)),
            leftover: Leftover::default(),
            wake: Notify::new(),
            drained: watch::Sender::new(0),
            observer,
        }
    }

    /// Keeps what the front has acknowledged.
    pub(super) fn keep(&self, entry: Entry, sent: Sent) {
        self.held().keep(entry, sent);
        self.wake.notify_one();
    }

    /// Has who drains look, though nothing is new.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// What is kept of a record.
    pub(super) fn of(&self, record: RecordDigest) -> Option<Kept> {
        self.held().of(record)
    }

    /// PostgreSQL has this state of a record. Returns what need not stand in the stream any more.
    pub(super) fn applied(&self, record: RecordDigest, number: u64) -> Vec<Sent> {
        let mut held = self.held();
        let sent = held.applied(record, number);
        self.drained.send_replace(held.drained());
        sent
    }

    /// Somebody has locked this record in PostgreSQL.
    pub(super) fn postpone(&self, record: RecordDigest) {
        self.held().postpone(record);
    }

    /// Waits until PostgreSQL has all that is kept now, and the front was told.
    pub(super) async fn drained(&self) {
        let last = self.held().last();
        // The sender is ours, so it is not gone.
        let _ = self.drained.subscribe().wait_for(|drained| *drained >= last).await;
        self.leftover.told().await;
    }

    /// Whether PostgreSQL is so far behind that nothing more may be acknowledged before it has it.
    pub(super) fn lags(&self, limit: Duration) -> bool {
        let held = self.held();
        held.lag() > limit || held.len() > ENTRIES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held().len() == 0
    }

    /// Whether PostgreSQL may not know of a record that is kept here.
    pub(super) fn holds_claims(&self) -> bool {
        self.held().has_claims()
    }

    /// Tells how much there is, and how old the oldest is.
    pub(super) fn tell(&self) {
        let held = self.held();
        let entries = u64::try_from(held.len()).unwrap_or(u64::MAX);
        self.observer.observe(&Event::Outbox { entries, lag: held.lag() });
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Whoever held the lock could only keep or drop whole entries.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
