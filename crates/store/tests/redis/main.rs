//! The store on Redis: the contract's conformance suite, and what only this store promises.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod conformance;
mod faults;
mod fixture;
mod load;
mod losses;
#[cfg(feature = "postgres")]
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "shared by several tests, none of which needs all of it")]
mod postgres;
mod proxy;
mod resent;
#[path = "../servers/redis.rs"]
#[allow(dead_code, reason = "shared by several tests, none of which needs all of it")]
mod server;
mod settings;
#[cfg(feature = "postgres")]
mod tiered;
#[cfg(feature = "redis-tls")]
mod tls;
