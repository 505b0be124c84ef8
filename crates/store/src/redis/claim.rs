//! The claim, as `claim.lua` judges and writes it.

use oncegate_core::{
    Claim, ClaimRequest, Completed, DoubtReason, Doubted, ErrorKind, Fence, Fingerprint, FirstUse, KeySpelling, Lease,
    Operation, Owner, Policy, StateName, StoreError, StoredResponse,
};
use redis::Value;

use super::{
    caller::Sent,
    layout::{self, Tag},
    options::Options,
    reply::{Reply, unexpected},
    row,
    script::{CLAIM, Call},
};

/// What to ask.
pub(super) fn call(request: &ClaimRequest, sent: &Sent<'_>, options: &Options) -> Call {
    let (record, policy) = (request.id.digest(), &request.policy);
    let keys = Tag::of(record).keys_of(record, &layout::withdrawal(request.owner.as_ref()));
    Call::new(&CLAIM, keys, options.now())
        .with(sent.handle)
        .with(sent.number)
        .with(request.id.scope().as_str())
        .with(request.id.key().as_str())
        .with(request.fingerprint.as_bytes())
        .with(request.owner.as_ref().map_or(&[][..], |owner| Owner::as_bytes(owner)))
        .with(request.operation.as_str())
        .with(request.spelling.as_str())
        .with(policy.backend.as_str())
        .with(policy.on_abandoned.as_str())
        .with(u64::from(policy.max_attempts))
        .with(policy.lease)
        .with(policy.retention)
        .with(Policy::LEASE_DOUBLED_MAX)
        .with(options.cold)
}

/// What the answer means.
pub(super) fn answer(request: &ClaimRequest, value: Value) -> Result<Claim, StoreError> {
    let mut reply = Reply::of(value, CLAIM.verb)?;
    let record = request.id.digest();
    match &*reply.text()? {
        "acquired" => lease(request, &mut reply).map(Claim::Acquired),
        "completed" => completed(&mut reply).map(Claim::Completed),
        "in_flight" => Ok(Claim::InFlight { retry_after: reply.duration()? }),
        "mismatch" => {
            let operation = Operation::from_text(&reply.text()?);
            let state = StateName::parse(&reply.text()?).ok_or_else(|| unexpected(CLAIM.verb))?;
            Ok(Claim::Mismatch(FirstUse { operation, state }))
        }
        "unknown" => Ok(Claim::Unknown(Doubted { reason: DoubtReason::new(&reply.text()?), since: reply.time()? })),
        "rules_changed" => {
            let recorded = Fingerprint::from_bytes(&reply.bytes()?);
            let recorded = recorded.map_err(|error| unexpected(CLAIM.verb).with_source(error))?;
            Ok(Claim::RulesChanged { recorded })
        }
        "collision" => Err(StoreError::new(ErrorKind::Collision, format!("record {record} belongs to another key"))),
        "cold" => {
            let left = reply.duration()?.as_secs() + 1;
            let text = format!(
                "Redis is cold: it is new or may have lost records, and takes no new ones for another {left} s"
            );
            Err(StoreError::new(ErrorKind::Unavailable, text).unapplied())
        }
        "withdrawn" => {
            let text = format!("the claim of {record} was withdrawn before it came");
            Err(StoreError::new(ErrorKind::Unavailable, text).unapplied())
        }
        _ => Err(unexpected(CLAIM.verb)),
    }
}

fn lease(request: &ClaimRequest, reply: &mut Reply) -> Result<Lease, StoreError> {
    Ok(Lease {
        record: request.id.digest(),
        owner: request.owner,
        fence: Fence::new(reply.number()?),
        attempt: reply.number()?,
        length: reply.duration()?,
        spelling: KeySpelling::parse(&reply.text()?).ok_or_else(|| unexpected(CLAIM.verb))?,
        created_at: reply.time()?,
    })
}

fn completed(reply: &mut Reply) -> Result<Completed, StoreError> {
    let (completed_at, expires_at, expires_in) = (reply.time()?, reply.time()?, reply.duration()?);
    let status = reply.number()?;
    let headers = row::headers(&reply.text()?, CLAIM.verb)?;
    let response = StoredResponse { status, headers, body: reply.optional_bytes()? };
    Ok(Completed { response: response.into(), completed_at, expires_at, expires_in })
}
