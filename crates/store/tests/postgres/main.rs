//! The store on PostgreSQL: the contract's conformance suite, and what only this store promises.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod conformance;
mod failover;
mod fixture;
mod locks;
mod losses;
mod outbox;
mod plans;
mod pooler;
mod proxy;
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "shared by several tests, none of which needs all of it")]
mod server;
#[path = "../shared/suspicion.rs"]
mod shared;
mod suspicion;
mod sweep;
#[cfg(feature = "postgres-tls")]
mod tls;
