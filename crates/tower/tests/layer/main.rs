//! The layer around a scripted inner service.

mod cancellation;
mod harness;
mod lease;
mod outcomes;
mod repeats;
mod replay;
mod store_faults;
mod streaming;
