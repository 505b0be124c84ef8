//! A tower layer that makes repeated HTTP requests harmless.
//!
//! A client sends `POST /payments` with an `Idempotency-Key`, the answer is lost, the client repeats:
//! the handler runs once, and the repeat gets the first answer. See [`IdempotencyLayer`] for how to
//! put it around a service, [`Route`] for what can be set, and `oncegate_core` for the protocol.

#![warn(clippy::wildcard_enum_match_arm)]

mod account;
mod admit;
mod body;
mod claim;
mod crash;
mod enter;
mod error;
mod execute;
#[cfg(feature = "axum")]
mod extract;
mod flow;
mod layer;
mod local;
mod outcome;
pub mod problem;
mod receive;
mod relay;
pub mod replay;
mod reply;
pub mod route;
mod settle;
mod split;
mod suspect;

pub use crate::{
    account::{Account, Entries},
    body::{RequestBody, ResponseBody},
    error::{BoxError, UpstreamError, UpstreamErrorKind},
    execute::{ATTEMPT, CurrentLease, FENCE, RECORD, SECRET},
    layer::{Handle, Idempotency, IdempotencyLayer, Settings},
    outcome::{Event, Observer, Outcome, Unobserved},
    problem::Problem,
    route::{Route, Routes},
};
