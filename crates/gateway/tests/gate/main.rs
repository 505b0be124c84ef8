//! The real binary in front of a scripted service.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access_log;
mod admin;
mod admin_only;
mod api;
mod backend;
mod check;
mod config;
mod http;
mod incident;
mod monitoring;
mod postgres;
mod process;
mod readiness;
mod redis;
mod reload;
mod secret;
mod serve;
mod tiered;

#[path = "../servers"]
mod servers {
    #[allow(dead_code, reason = "other tests use all of it")]
    pub(crate) mod postgres;
    #[allow(dead_code, reason = "other tests use all of it")]
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod prometheus;
    pub(crate) mod redis;
}
