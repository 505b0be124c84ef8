//! Stores for oncegate: where records live.
//!
//! Every store keeps the contract of [`oncegate_core::Store`] and is held to it by the conformance
//! suite. A store knows records and never HTTP.
//!
//! | feature | store | when |
//! |---|---|---|
//! | `sqlite` | `sqlite::SqliteStore` | one machine; no server to set up |
//! | `postgres` | `postgres::PostgresStore` | many processes, many machines; the authority on what was executed |

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
