//! One transaction as the verbs in it see it.

use std::{cell::Cell, time::Duration};

use oncegate_core::{Fence, Timestamp};
use rusqlite::{CachedStatement, Connection, Params};

// === types ===

/// One transaction: its connection, its time, and the fences it gives.
pub(super) struct Session<'a> {
    connection: &'a Connection,
    now: Timestamp,
    /// The last fence given in this transaction, once one was.
    last_fence: Cell<Option<i64>>,
}

// === impl Session ===

impl<'a> Session<'a> {
    pub(super) fn new(connection: &'a Connection, now: Timestamp) -> Self {
        Self { connection, now, last_fence: Cell::new(None) }
    }

    /// The store's time, the same for all verbs of the transaction.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// A statement, compiled once per connection.
    pub(super) fn statement(&self, sql: &'static str) -> Result<CachedStatement<'a>, rusqlite::Error> {
        self.connection.prepare_cached(sql)
    }

    /// Executes a statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: impl Params) -> Result<usize, rusqlite::Error> {
        self.statement(sql)?.execute(parameters)
    }

    /// The fence that is given next: never given before, and still to be [given](Self::give).
    pub(super) fn next_fence(&self) -> Result<Fence, rusqlite::Error> {
        let last = match self.last_fence.get() {
            Some(last) => last,
            None => self.statement(include_str!("last_fence.sql"))?.query_row([], |row| row.get(0))?,
        };
        Ok(Fence::new(last + 1))
    }

    /// Says that a row of this transaction has the next fence.
    pub(super) fn give(&self, fence: Fence) {
        self.last_fence.set(Some(fence.get()));
    }

    /// Must be called before the commit; until then nobody knows the fences that were given.
    pub(super) fn store_last_fence(&self) -> Result<(), rusqlite::Error> {
        match self.last_fence.get() {
            None => Ok(()),
            Some(last) => self.execute(include_str!("store_last_fence.sql"), [last]).map(drop),
        }
    }
}

/// A duration as it is stored: whole microseconds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
