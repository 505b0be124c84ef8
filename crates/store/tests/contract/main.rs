//! The SQL contract, as an application meets it: several connections to a real PostgreSQL, both sides of each race.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answer;
mod claims;
mod clocks;
mod enter;
mod jobs;
mod migrate;
mod names;
mod page;
mod races;
mod refusals;
mod rights;
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "shared by several tests, none of which needs all of it")]
mod server;
mod writes;
