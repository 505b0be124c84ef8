//! Public reports of what goes wrong in such systems, each as a test against the real gateway.
//!
//! `docs/cases.md` lists them; it is made from the names of these tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod clocks;
mod fingerprints;
mod harness;
mod incidents;
mod keys;
mod leases;
mod limits;
mod methods;
mod proxying;
mod races;
mod replays;
mod scopes;
mod stacks;
mod statuses;
mod stores;
mod streams;
mod webhooks;
