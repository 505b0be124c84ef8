//! What PostgreSQL remembers of the front that stands before it, and who says that a key is new.

use std::{sync::Arc, time::Duration};

use oncegate_core::StoreError;
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{
    address::Address,
    desk::Desk,
    lane::BEGIN,
    options::Options,
    read::unreadable,
    value::Span,
    verb::{Parameter, Statement},
};

// === types ===

/// A connection of its own to the row in which PostgreSQL remembers its front.
#[derive(Debug)]
pub struct FrontRegister(Desk);

/// The front, as PostgreSQL remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredFront {
    /// Its address, without a password.
    pub address: String,
    /// What was confirmed under another generation is void.
    pub generation: String,
    /// Whether the gateway that was started last wants an outbox.
    pub wants_outbox: bool,
    /// How often an outbox was opened or closed.
    pub epoch: i64,
    /// For how long no new key is claimed after an outbox was closed.
    pub quiet: Duration,
    /// How many entries of an outbox could not be applied and wait for somebody to look at them.
    pub poisoned: u64,
    /// Which database this is, among those that may share a front.
    pub(crate) database: String,
    /// Of the outbox that is open.
    pub(crate) sentinel: Option<Uuid>,
    /// Whether one was closed, and the time of which new keys have to wait for is not counted yet.
    pub(crate) is_closing: bool,
    /// Whether another one may be opened by now.
    pub(crate) is_rested: bool,
}

/// What a gateway wants of the front that it stands behind.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Whether it wants an outbox.
    pub outbox: bool,
    /// How long it may take until what it has acknowledged is in PostgreSQL.
    pub quiet: Duration,
}

// === impl FrontRegister ===

impl FrontRegister {
    /// Connects when it is first asked.
    #[must_use]
    pub fn new(address: &Address, options: &Options) -> Self {
        Self(Desk::new(Arc::new(address.clone()), options))
    }

    /// The front that stands before the records, if one does.
    ///
    /// # Errors
    /// As a store's verbs have them. Cancelled: nothing happens.
    pub async fn find(&self) -> Result<Option<RegisteredFront>, StoreError> {
        let rows = self.ask(include_str!("find_front.sql"), Vec::new()).await?;
        rows.first().map(RegisteredFront::read).transpose()
    }

    /// Remembers that this front stands there. Where another one stood, all that was confirmed before is void.
    ///
    /// # Errors
    /// As a store's verbs have them. Cancelled: it may be remembered or not.
    pub async fn remember(&self, address: &str, wanted: Wanted) -> Result<(), StoreError> {
        let durability = if wanted.outbox { "outbox" } else { "authoritative" };
        let parameters: Vec<Parameter<'_>> = vec![
            (Box::new(address.to_owned()), Type::TEXT),
            (Box::new(durability), Type::TEXT),
            (Box::new(Span(wanted.quiet)), Type::INTERVAL),
        ];
        self.ask(include_str!("remember_front.sql"), parameters).await.map(drop)
    }

    /// Makes void all that the front holds.
    ///
    /// # Errors
    /// As a store's verbs have them. Cancelled: it may be or not.
    pub async fn renew(&self) -> Result<(), StoreError> {
        self.ask(include_str!("renew_front.sql"), Vec::new()).await.map(drop)
    }

    async fn ask(&self, sql: &'static str, parameters: Vec<Parameter<'_>>) -> Result<Vec<Row>, StoreError> {
        self.0.ask(BEGIN, Statement { sql, is_planned: false, parameters }).await
    }
}

/// What only gateways do.
#[cfg(feature = "redis")]
impl FrontRegister {
    /// Whether this gateway may try to open an outbox, if nothing was switched since `epoch`.
    pub(crate) async fn take_turn(&self, epoch: i64) -> Result<bool, StoreError> {
        let parameters: Vec<Parameter<'_>> = vec![(Box::new(epoch), Type::INT8)];
        Ok(!self.ask(include_str!("take_turn.sql"), parameters).await?.is_empty())
    }

    /// Opens an outbox under this sentinel, if nothing was switched since `epoch`; whether it did.
    pub(crate) async fn open_outbox(&self, epoch: i64, sentinel: Uuid) -> Result<bool, StoreError> {
        let parameters: Vec<Parameter<'_>> = vec![(Box::new(epoch), Type::INT8), (Box::new(sentinel), Type::UUID)];
        Ok(!self.ask(include_str!("open_outbox.sql"), parameters).await?.is_empty())
    }

    /// Closes the outbox of this sentinel; whether it was open.
    pub(crate) async fn close_outbox(&self, sentinel: Uuid) -> Result<bool, StoreError> {
        let parameters: Vec<Parameter<'_>> = vec![(Box::new(sentinel), Type::UUID)];
        Ok(!self.ask(include_str!("close_outbox.sql"), parameters).await?.is_empty())
    }

    /// Counts the time that new keys have to wait for from now on, if an outbox was just closed; with `holds`, also while that
    /// time goes on.
    pub(crate) async fn keep_quiet(&self, holds: bool) -> Result<(), StoreError> {
        let parameters: Vec<Parameter<'_>> = vec![(Box::new(holds), Type::BOOL)];
        self.ask(include_str!("keep_quiet.sql"), parameters).await.map(drop)
    }

    /// Keeps an entry that cannot be applied, and why.
    pub(crate) async fn set_aside(&self, entry: &crate::entry::Entry, reason: &str) -> Result<(), StoreError> {
        let request = entry.claim.as_ref().map(|claim| &claim.request);
        let completion = entry.completion.as_ref();
        let parameters: Vec<Parameter<'_>> = vec![
            (Box::new(super::value::uuid(entry.record)), Type::UUID),
            (Box::new(entry.fence.get()), Type::INT8),
            text(Some(if completion.is_some() { "completed" } else { "in_flight" })),
            text(request.map(|request| request.id.scope().as_str())),
            text(request.map(|request| request.id.key().as_str())),
            text(request.map(|request| request.operation.as_str())),
            (Box::new(completion.map(|done| super::value::At(done.completed_at))), Type::TIMESTAMPTZ),
            (Box::new(completion.map(|done| i32::from(done.response.status))), Type::INT4),
            text(completion.map(|done| super::row::headers_json(&done.response)).as_deref()),
            (Box::new(completion.and_then(|done| done.response.body.as_deref())), Type::BYTEA),
            text(Some(reason)),
        ];
        self.ask(include_str!("set_aside.sql"), parameters).await.map(drop)
    }

    /// Forgets up to so many graves that nothing can rise from any more.
    pub(crate) async fn level_graves(&self, rows: usize) -> Result<(), StoreError> {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        self.ask(include_str!("level_graves.sql"), vec![(Box::new(rows), Type::INT8)]).await.map(drop)
    }
}

#[cfg(feature = "redis")]
fn text(text: Option<&str>) -> Parameter<'static> {
    (Box::new(text.map(str::to_owned)), Type::TEXT)
}

// === impl RegisteredFront ===

impl RegisteredFront {
    /// Whether an outbox is open.
    #[must_use]
    pub fn has_outbox(&self) -> bool {
        self.sentinel.is_some()
    }

    fn read(row: &Row) -> Result<Self, StoreError> {
        let text = |name: &str| row.try_get::<_, String>(name).map_err(unreadable);
        let Span(quiet) = row.try_get("quiet").map_err(unreadable)?;
        Ok(Self {
            address: text("address")?,
            generation: text("generation")?,
            database: text("database")?,
            wants_outbox: text("durability")? == "outbox",
            epoch: row.try_get("epoch").map_err(unreadable)?,
            quiet,
            poisoned: super::read::number::<u64>(row, "poisoned")?,
            sentinel: row.try_get("sentinel").map_err(unreadable)?,
            is_closing: row.try_get("is_closing").map_err(unreadable)?,
            is_rested: row.try_get("is_rested").map_err(unreadable)?,
        })
    }
}
