//! The real binary in front of a scripted service.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod api;
mod backend;
mod check;
mod config;
mod http;
mod process;
mod readiness;
mod reload;
mod serve;
