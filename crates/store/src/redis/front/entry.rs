//! What an entry of the front says, and what PostgreSQL's answers make of one.

use std::time::Duration;

use oncegate_core::{
    Claim, ClaimRequest, Completed, Fingerprint, FirstUse, Lease, Operation, Owner, StateName, StoreError,
    StoredResponse,
};

use super::super::{
    reply::{Reply, unexpected},
    row,
    script::{Call, LOOK},
    write::with_response,
};

// === types ===

/// What PostgreSQL confirmed to a claim.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// This request executes.
    Acquired(&'a ClaimRequest, &'a Lease),
    /// It is completed.
    Completed(&'a ClaimRequest, &'a Completed),
    /// Somebody else executes, for at least so long.
    InFlight(Duration),
}

// === impl Entry ===

impl Entry<'_> {
    pub(super) fn add_to(&self, call: Call) -> Call {
        match self {
            Self::Acquired(request, lease) => {
                // A takeover goes on under the operation of the first request, which is not known here.
                let operation = if lease.attempt == 1 { request.operation.as_str() } else { "" };
                named(call.with("acquired"), request)
                    .with(lease.owner.as_ref().map_or(&[][..], |owner| Owner::as_bytes(owner)))
                    .with(operation)
                    .with(lease.length)
            }
            Self::Completed(request, completed) => {
                let call = named(call.with("completed"), request)
                    .with(completed.completed_at.as_micros())
                    .with(completed.expires_at.as_micros())
                    .with(completed.expires_in);
                with_response(call, &completed.response)
            }
            Self::InFlight(left) => call.with("in_flight").with(*left),
        }
    }
}

fn named(call: Call, request: &ClaimRequest) -> Call {
    call.with(&*name(request)).with(request.fingerprint.as_bytes())
}

/// Scope and key, neither of which has NUL: two records of one digest are told apart by it.
pub(super) fn name(request: &ClaimRequest) -> String {
    format!("{}\0{}", request.id.scope().as_str(), request.id.key().as_str())
}

/// Reads what an entry answers.
pub(super) fn answer(word: &str, reply: &mut Reply) -> Result<Claim, StoreError> {
    match word {
        "completed" => completed(reply).map(Claim::Completed),
        "in_flight" => Ok(Claim::InFlight { retry_after: reply.duration()? }),
        "mismatch" => {
            let operation = Operation::from_text(&reply.text()?);
            let state = StateName::parse(&reply.text()?).ok_or_else(|| unexpected(LOOK.verb))?;
            Ok(Claim::Mismatch(FirstUse { operation, state }))
        }
        "rules_changed" => {
            let recorded = Fingerprint::from_bytes(&reply.bytes()?);
            let recorded = recorded.map_err(|error| unexpected(LOOK.verb).with_source(error))?;
            Ok(Claim::RulesChanged { recorded })
        }
        _ => Err(unexpected(LOOK.verb)),
    }
}

fn completed(reply: &mut Reply) -> Result<Completed, StoreError> {
    let (completed_at, expires_at, expires_in) = (reply.time()?, reply.time()?, reply.duration()?);
    let status = reply.number()?;
    let headers = row::headers(&reply.text()?, LOOK.verb)?;
    let response = StoredResponse { status, headers, body: reply.optional_bytes()? };
    Ok(Completed { response: response.into(), completed_at, expires_at, expires_in })
}
