//! Public reports of what goes wrong in such systems, each as a test against the real gateway.
//!
//! `docs/cases.md` lists them; it is made from the names of these tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clocks;
mod fingerprints;
mod harness;
mod keys;
mod leases;
mod limits;
mod methods;
mod races;
mod replays;
mod scopes;
mod statuses;
mod streams;
