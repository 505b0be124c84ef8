//! The layer around a scripted inner service.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod cancellation;
mod harness;
mod headers;
mod lease;
mod outcomes;
mod problems;
mod repeats;
mod replay;
mod store_faults;
mod streaming;
mod transactional;
