//! A backend that completes the record in its own transaction, behind the real gateway on a real PostgreSQL: whatever
//! fails, each key is one payment, and everybody hears the answer that was committed with it.
//!
//! The backend is `examples/transactional-payments`, taught to misbehave on demand (`worker.py`).
//! `ONCEGATE_STOPS=200` sets how many workers are stopped past their leases, and `ONCEGATE_KILLS=20` how often the
//! gateway is killed at each of its crash points.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and reports by printing")]

mod answers;
mod client;
#[cfg(feature = "crash-points")]
mod kills;
mod pages;
mod place;
#[path = "../gate/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../servers"]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod python;
}
mod stops;
mod workers;
