//! Public reports of what goes wrong in such systems, each as a test against the real gateway.
//!
//! `docs/cases.md` lists them; it is made from the names of these tests. What no public case is about is in `table.rs`,
//! `unread.rs`, and, about PostgreSQL, `shared.rs` and `outages.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod clocks;
mod fingerprints;
mod harness;
mod incidents;
mod keys;
mod latency;
mod leases;
mod limits;
mod methods;
mod outages;
mod postgres;
#[path = "../../../store/tests/postgres/proxy.rs"]
#[allow(dead_code, reason = "the store's own tests use all of it")]
mod proxy;
mod proxying;
mod races;
mod replays;
mod scopes;
mod serializable;
#[path = "../servers"]
#[allow(dead_code, reason = "other tests use more of it")]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
}
mod shared;
mod stacks;
mod statuses;
mod stores;
mod streams;
mod table;
mod unread;
mod webhooks;
