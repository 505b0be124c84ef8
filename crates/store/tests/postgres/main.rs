//! The store on PostgreSQL: the contract's conformance suite, and what only this store promises.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod conformance;
mod fixture;
mod locks;
mod plans;
mod pooler;
mod server;
