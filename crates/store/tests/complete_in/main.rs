//! `complete_in` on a real PostgreSQL: effect and completion commit together or not at all, whoever else is at the record.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod place;
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "shared by several tests, none of which needs all of it")]
mod server;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tokio_postgres;
