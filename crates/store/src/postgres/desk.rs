//! A connection for what concerns no single record: lists, counts, the audit, the reaper.

use std::sync::Arc;

use oncegate_core::{Reaped, StoreError};
use tokio::sync::Mutex;
use tokio_postgres::{Row, types::Type};

use super::{address::Address, link::Link, options::Options, read, value::Span, verb::Statement};

// === types ===

/// One connection, used by one caller at a time, so that none of this ever stands before a claim.
#[derive(Debug)]
pub(super) struct Desk(Mutex<Link>);

// === impl Desk ===

impl Desk {
    pub(super) fn new(address: Arc<Address>, options: &Options) -> Self {
        Self(Mutex::new(Link::new(address, options.reply_timeout)))
    }

    /// Runs one statement in a transaction of its own.
    pub(super) async fn ask(&self, begin: &str, statement: Statement<'_>) -> Result<Vec<Row>, StoreError> {
        let mut link = self.0.lock().await;
        let outcome = link.transact(begin, &[statement]).await;
        let mut rows = outcome.map_err(|failure| failure.to_store_error())?;
        Ok(rows.pop().unwrap_or_default())
    }
}

// === reap ===

/// How many passes one call makes at most, while each says that there is more: enough for what 20,000 claims a second
/// leave between two calls of a gateway, and still some tenths of a second.
pub(super) const PASSES_MAX: usize = 10;

/// The statement of one pass of the verb *reap*.
pub(super) fn reap(rows: usize, offset: Span) -> Statement<'static> {
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    let parameters: Vec<super::verb::Parameter<'_>> =
        vec![(Box::new(offset), Type::INTERVAL), (Box::new(rows), Type::INT8)];
    Statement { sql: include_str!("reap.sql"), is_planned: false, parameters }
}

/// What its row says, and whether another pass at once has work.
pub(super) fn reaped(row: &Row) -> Result<(Reaped, bool), StoreError> {
    let reaped = Reaped { expired: read::number(row, "expired")?, doubted: read::number(row, "doubted")? };
    Ok((reaped, row.try_get("is_more").map_err(read::unreadable)?))
}
