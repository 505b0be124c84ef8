//! One transaction after the other, as the verbs in them see it.

use std::{cell::Cell, time::Duration};

use oncegate_core::{Fence, Timestamp};
use rusqlite::{Connection, Error, Row, named_params};

use super::statements::{Parameters, Statements};

// === types ===

/// The transaction that is open: its connection, its time, and the fences it gives.
pub(super) struct Session<'a> {
    statements: Statements<'a>,
    now: Cell<Timestamp>,
    /// The last fence given in this transaction, once one was.
    last_fence: Cell<Option<i64>>,
}

// === impl Session ===

impl<'a> Session<'a> {
    /// Before the first transaction has [begun](Self::begin) there is no time.
    pub(super) fn new(connection: &'a Connection) -> Self {
        let now = Cell::new(Timestamp::from_micros(0));
        Self { statements: Statements::new(connection), now, last_fence: Cell::new(None) }
    }

    /// Must be called when a transaction has begun: what the one before knew holds no longer.
    pub(super) fn begin(&self, now: Timestamp) {
        self.now.set(now);
        self.last_fence.set(None);
    }

    /// The store's time, the same for all verbs of the transaction.
    pub(super) fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Executes a statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<usize, Error> {
        self.statements.execute(sql, parameters)
    }

    /// Reads the first row of a query, if there is one.
    pub(super) fn first<T, E: From<Error>>(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let mut first = None;
        let is_enough = |row: &Row<'_>| {
            first = Some(read(row)?);
            Ok::<_, E>(true)
        };
        self.statements.query(sql, parameters, is_enough)?;
        Ok(first)
    }

    /// Reads all rows of a query.
    pub(super) fn all<T, E: From<Error>>(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut all = Vec::new();
        let is_enough = |row: &Row<'_>| {
            all.push(read(row)?);
            Ok::<_, E>(false)
        };
        self.statements.query(sql, parameters, is_enough)?;
        Ok(all)
    }

    /// The fence that is given next: never given before, and still to be [given](Self::give).
    pub(super) fn next_fence(&self) -> Result<Fence, Error> {
        let last = match self.last_fence.get() {
            Some(last) => last,
            None => {
                let last = self.first(include_str!("last_fence.sql"), &[], |row| row.get(0))?;
                last.ok_or(Error::QueryReturnedNoRows)?
            }
        };
        Ok(Fence::new(last + 1))
    }

    /// Says that a row of this transaction has the next fence.
    pub(super) fn give(&self, fence: Fence) {
        self.last_fence.set(Some(fence.get()));
    }

    /// Must be called before the commit; until then nobody knows the fences that were given.
    pub(super) fn store_last_fence(&self) -> Result<(), Error> {
        match self.last_fence.get() {
            None => Ok(()),
            Some(last) => self.execute(include_str!("store_last_fence.sql"), named_params! {":last": last}).map(drop),
        }
    }
}

/// A duration as it is stored: whole microseconds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
