//! The layer before real stores, without a gateway around it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cancellation;
mod client;
mod guarded;
mod stutter;
