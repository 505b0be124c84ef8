//! What operators see and do: by command on the store itself, and through the admin listener.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "gate/http.rs"]
mod http;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "gate/process.rs"]
mod process;
#[path = "records/service.rs"]
mod service;

#[path = "servers"]
#[allow(dead_code, reason = "other tests use more of it")]
mod servers {
    pub(crate) mod chromium;
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
}

#[path = "records/api.rs"]
mod api;
#[path = "records/browser.rs"]
mod browser;
#[path = "records/command.rs"]
mod command;
#[path = "records/page.rs"]
mod page;
