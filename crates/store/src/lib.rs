//! Stores for oncegate: where records live.
//!
//! Every store keeps the contract of [`oncegate_core::Store`] and is held to it by the conformance
//! suite. A store knows records and never HTTP.
//!
//! | feature | store | when |
//! |---|---|---|
//! | `sqlite` | `sqlite::SqliteStore` | one machine; no server to set up |
//! | `postgres` | `postgres::PostgresStore` | many processes, many machines; the authority on what was executed |
//! | `postgres-tls` | the same | over encrypted connections, with rustls and aws-lc |
//! | `redis` | `redis::RedisStore` | effects that may happen twice, at a high rate: Redis forgets |
//! | `redis-tls` | the same | over encrypted connections, with rustls and aws-lc |
//! | `postgres` and `redis` | `tiered::TieredStore` | repeats answered by Redis, decided by PostgreSQL |
//!
//! With `postgres` or `sqlx` there is also `complete_in`: the verb *complete* in the caller's own transaction, on a
//! connection of tokio-postgres or of sqlx.

#[cfg(any(feature = "postgres", feature = "sqlx"))]
pub mod complete_in;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod entry;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod lab;
pub mod observer;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(all(feature = "postgres", feature = "redis"))]
pub mod tiered;
