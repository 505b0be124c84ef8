//! What the store is measured against: the plain recipe of two statements on a pool of connections; and what a
//! measurement has to know of the server, and to do there.
//!
//! Part of `oncegate bench store`, and here because the driver ends here. Nothing of it is used while serving.

mod plain;
mod server;
mod strategy;

pub use self::{
    plain::PlainRecipe,
    server::{About, Counters, Server, Sizes},
    strategy::{Shop, Strategy},
};

use oncegate_core::{ErrorKind, StoreError};
use tokio_postgres::Client;

use super::address::Address;

/// A connection for measuring; it ends with its client.
async fn connect(address: &Address) -> Result<Client, StoreError> {
    match address.connect().await {
        Ok((client, _driving)) => Ok(client),
        Err(error) => Err(StoreError::new(ErrorKind::Unavailable, "connecting failed").with_source(error)),
    }
}

/// What failed, with the driver's words behind it.
fn failed(what: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError {
    move |error| StoreError::new(ErrorKind::Unavailable, format!("{what} failed")).with_source(error)
}
