//! A tower layer that makes repeated HTTP requests harmless.

#![warn(clippy::wildcard_enum_match_arm)]

mod body;
mod error;
mod outcome;
pub mod problem;
pub mod route;

pub use crate::{
    body::{RequestBody, ResponseBody},
    error::{BoxError, UpstreamError, UpstreamErrorKind},
    outcome::{Event, Observer, Outcome, Unobserved},
    problem::Problem,
    route::{Route, Routes},
};
