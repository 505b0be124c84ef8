//! The verb *complete* in the caller's own transaction: effect and response commit together, or neither does.
//!
//! A handler under the layer finds its lease in the extensions of its request. It begins a transaction on its own
//! connection, does its work there, calls [`complete_in`](CompleteIn::complete_in), commits, and answers with the very
//! response that it has stored. The route is declared `Backend::Transactional`. Then at most one transaction per key
//! commits, whatever dies, stalls or comes twice: who was fenced meanwhile gets [`Fenced`] and rolls back.
//!
//! | feature | a transaction is |
//! |---|---|
//! | `postgres` | `&tokio_postgres::Transaction`, or `&tokio_postgres::Client` after its own `BEGIN` |
//! | `sqlx` | `&mut sqlx::PgConnection`, such as `&mut *transaction` |
//!
//! With tokio-postgres:
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # async fn pay(client: &mut tokio_postgres::Client, lease: &oncegate_core::Lease) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::StoredResponse;
//! use oncegate_store::complete_in::CompleteIn;
//!
//! let transaction = client.transaction().await?;
//! transaction.execute("INSERT INTO payments (amount) VALUES (100)", &[]).await?;
//! let response = StoredResponse { status: 201, headers: Vec::new(), body: Some("paid".into()) };
//! lease.complete_in(&transaction, &response).await?; // an error drops the transaction, which rolls it back
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! With sqlx:
//!
//! ```no_run
//! # #[cfg(feature = "sqlx")]
//! # async fn pay(pool: sqlx::PgPool, lease: &oncegate_core::Lease) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::StoredResponse;
//! use oncegate_store::complete_in::CompleteIn;
//!
//! let mut transaction = pool.begin().await?;
//! sqlx::query("INSERT INTO payments (amount) VALUES (100)").execute(&mut *transaction).await?;
//! let response = StoredResponse { status: 201, headers: Vec::new(), body: Some("paid".into()) };
//! lease.complete_in(&mut *transaction, &response).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! sqlx 0.8.4 to 0.9.0 leave a pooled connection inside an open transaction when the future of `begin()` is dropped
//! half-way (github.com/transact-rs/sqlx, issues 4385 and 4393). The layer runs guarded handlers in tasks of their
//! own, so that a client who leaves drops nothing; but put no timeout around `begin()`, and none around a handler.

#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "postgres")]
mod tokio_postgres;

use std::{borrow::Cow, error::Error, future::Future};

use oncegate_core::{Fence, Lease, RecordDigest, StoredResponse};

// === types ===

/// Adds [`complete_in`](Self::complete_in) to a [`Lease`].
pub trait CompleteIn {
    /// Stores the response as a part of the caller's transaction. Leaves: in flight and unknown, also after the lease
    /// ended, as long as nobody took over. It waits for another transaction that has completed the record and has
    /// not ended yet, and then goes by what that one did.
    ///
    /// Nothing is stored before the caller commits. Outside of a transaction it is a commit of its own, and protects
    /// nothing.
    ///
    /// # Errors
    /// [`CompleteInError::Fenced`] unless this very call has completed the record: taken over, completed already (under
    /// the same fence too: the request was delivered twice), released or expired. The transaction is aborted then: roll
    /// **all** of it back, not only to a savepoint, or an effect before that savepoint would commit without its
    /// completion. Every other error is the driver's own; one with SQLSTATE 40001 means the same under REPEATABLE
    /// READ and SERIALIZABLE, or that the whole transaction may be tried again.
    ///
    /// # Cancellation
    /// Whether it was applied is open; roll the transaction back.
    fn complete_in<T: Transaction>(
        &self,
        transaction: T,
        response: &StoredResponse,
    ) -> impl Future<Output = Result<(), CompleteInError<T::Error>>> + Send;
}

/// The completion was refused: the effect belongs to another attempt. Roll back, and answer what you like: the layer
/// answers what the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record {} was not completed under fence {fence}: roll the whole transaction back", record.short())]
pub struct Fenced {
    /// Which record.
    pub record: RecordDigest,
    /// The fence that is out of date, or whose completion is stored already.
    pub fence: Fence,
}

/// Why nothing was completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteInError<E: Error + 'static> {
    /// Roll back: the effect belongs to another attempt.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The driver's error, as it came.
    #[error(transparent)]
    Database(E),
}

/// A driver's connection that is inside a transaction. Implemented here and nowhere else.
pub trait Transaction: sealed::Call {}

impl<T: sealed::Call> Transaction for T {}

mod sealed {
    use super::{Completion, Error, Future};

    /// How a driver calls `oncegate.complete`.
    pub trait Call: Send {
        /// The driver's error.
        type Error: Error + Send + Sync + 'static;

        /// Calls [`COMPLETE`](super::COMPLETE).
        fn call(self, completion: Completion<'_>) -> impl Future<Output = Result<(), Self::Error>> + Send;

        /// The server's code.
        fn code(error: &Self::Error) -> Option<super::Cow<'_, str>>;
    }
}

/// The arguments of the function, in its order.
#[doc(hidden)]
pub struct Completion<'a> {
    record: String,
    fence: i64,
    status: i32,
    headers: String,
    body: Option<&'a [u8]>,
}

/// Not prepared under a name, so that it works behind PgBouncer in transaction mode.
const COMPLETE: &str = include_str!("complete_in/complete_in.sql");

/// What `oncegate.complete` raises unless this call completed the record.
const FENCED: &str = "OG001";

// === impl CompleteIn ===

impl CompleteIn for Lease {
    async fn complete_in<T: Transaction>(
        &self,
        transaction: T,
        response: &StoredResponse,
    ) -> Result<(), CompleteInError<T::Error>> {
        let completion = Completion {
            record: self.record.to_string(),
            fence: self.fence.get(),
            status: i32::from(response.status),
            headers: response.headers_json(),
            body: response.body.as_deref(),
        };
        transaction.call(completion).await.map_err(|error| match T::code(&error) {
            Some(code) if code == FENCED => Fenced { record: self.record, fence: self.fence }.into(),
            Some(_) | None => CompleteInError::Database(error),
        })
    }
}
