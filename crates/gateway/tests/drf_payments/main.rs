//! A real backend: Django REST Framework behind Gunicorn with its payments in PostgreSQL, stormed directly and through
//! the gate, with workers that are killed meanwhile.
//!
//! `ONCEGATE_STORM_FULL=1` storms with 100 keys x 300 repeats instead of the few that every change can wait for, and
//! `ONCEGATE_KILLS=20` says how often a worker is killed in the middle of its work.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../gate/http.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod http;
mod kills;
mod migrations;
mod naive;
mod once;
#[path = "../gate/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "../servers"]
mod servers {
    pub(crate) mod gunicorn;
    #[allow(dead_code, reason = "other tests use all of it")]
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod python;
}
mod storm;

#[test]
fn the_example_passes_its_own_tests() -> anyhow::Result<()> {
    servers::gunicorn::Project::prepare()?.manage("test").map(drop)
}
