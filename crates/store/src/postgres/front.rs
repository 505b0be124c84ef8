//! What PostgreSQL remembers of the front that stands before it.

use std::sync::Arc;

use oncegate_core::StoreError;
use tokio_postgres::types::Type;

use super::{
    address::Address,
    desk::Desk,
    lane::BEGIN,
    options::Options,
    read::unreadable,
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
        let rows = self.0.ask(BEGIN, statement(include_str!("find_front.sql"), Vec::new())).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let text = |name: &str| row.try_get::<_, String>(name).map_err(unreadable);
        Ok(Some(RegisteredFront { address: text("address")?, generation: text("generation")? }))
    }

    /// Remembers that this front stands there. Where another one stood, all that was confirmed before is void.
    ///
    /// # Errors
    /// As a store's verbs have them. Cancelled: it may be remembered or not.
    pub async fn remember(&self, address: &str) -> Result<(), StoreError> {
        let parameters: Vec<Parameter<'_>> = vec![(Box::new(address.to_owned()), Type::TEXT)];
        self.0.ask(BEGIN, statement(include_str!("remember_front.sql"), parameters)).await.map(drop)
    }

    /// Makes void all that the front holds.
    ///
    /// # Errors
    /// As a store's verbs have them. Cancelled: it may be or not.
    pub async fn renew(&self) -> Result<(), StoreError> {
        self.0.ask(BEGIN, statement(include_str!("renew_front.sql"), Vec::new())).await.map(drop)
    }
}

fn statement<'a>(sql: &'static str, parameters: Vec<Parameter<'a>>) -> Statement<'a> {
    Statement { sql, is_planned: false, parameters }
}
