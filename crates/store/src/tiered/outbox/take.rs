//! The verbs that the front acknowledges while an outbox is open.

use std::sync::Arc;

use oncegate_core::{Backend, Claim, ClaimRequest, Lease, StoreError, StoredResponse};
use tokio::time::Instant;

use super::{
    super::{Tiers, mode},
    drain,
    settle::Closing,
};
use crate::{
    entry::{Claimed, Completion, Entry},
    postgres::{Applied, Known},
    redis::front::{Finish, Look, Take, Taken},
};

// === types ===

/// What became of a claim by way of the front.
pub(in super::super) enum Way {
    /// It is acquired: the token is gone.
    Acquired(Claim),
    /// The token is gone.
    Again,
    /// The token stands, and another fence is needed.
    Small,
    /// PostgreSQL is to judge it.
    Back,
}

// === claim ===

/// Claims by way of the front what PostgreSQL does not know.
///
/// # Errors
/// One server or the other does not answer. Only where the front was asked to take the claim it may stand.
pub(in super::super) async fn claim(
    tiers: &Arc<Tiers>,
    look: &Look,
    request: &ClaimRequest,
    until: Instant,
) -> Result<Way, StoreError> {
    // What was only asked leaves nothing to withdraw.
    let drawn = tiers.back_breaker.run(until, tiers.back.draw(look.record)).await.map_err(StoreError::unapplied)?;
    tiers.outbox.clock.note(drawn.now, tiers.back.clock_offset());
    let Known::New { fence, mut buried, sentinel } = drawn.known else { return Ok(Way::Back) };
    let (created_at, gateway) = (drawn.now, &*tiers.outbox.name);
    let sent = loop {
        let taking = tiers.front.take(Take { look, request, sentinel, buried, fence, created_at, gateway });
        let until = until.min(Instant::now() + tiers.options.front_timeout);
        match tiers.front_breaker.run(until, taking).await? {
            Taken::Here(sent) => break sent,
            Taken::Gone => return Ok(Way::Again),
            Taken::Small => return Ok(Way::Small),
            Taken::Cold => {
                mode::close(tiers, "the front may have lost what it acknowledged").await;
                return Ok(Way::Back);
            }
            Taken::Held(entry) => match drain::apply(tiers, &entry).await.map_err(StoreError::unapplied)? {
                // PostgreSQL knows that it is over: it stands in nobody's way.
                Applied::Stale if buried.is_none_or(|buried| buried < entry.fence) => buried = Some(entry.fence),
                Applied::Held => return Err(drain::held(look.record)),
                Applied::SetAside => return Err(drain::set_aside(look.record)),
                Applied::Done | Applied::Stale => return Ok(Way::Back),
            },
        }
    };
    let (record, owner) = (look.record, request.owner);
    let claim = Some(Claimed { request: request.clone(), created_at });
    tiers.outbox.keep(Entry { record, fence, owner, claim, completion: None }, sent);
    let (length, spelling) = (request.policy.lease, request.spelling);
    let lease = Lease { record, fence, owner, attempt: 1, length, spelling, created_at };
    if request.policy.backend == Backend::Transactional {
        // It completes the record in a transaction of its own, so that has to be there.
        tiers.settle(record, Closing::Yes).await.flatten()?;
    }
    Ok(Way::Acquired(Claim::Acquired(lease)))
}

// === complete ===

/// Completes by way of the front; whether it did. Where it did not, PostgreSQL is to.
pub(in super::super) async fn finish(tiers: &Tiers, lease: &Lease, response: &StoredResponse) -> bool {
    let (record, fence) = (lease.record, lease.fence);
    let Some(generation) = tiers.generation.get().filter(|_| tiers.mode.is_open()) else { return false };
    let asked = tiers.front.clock(record);
    let completed_at = tiers.outbox.clock.now(tiers.back.clock_offset());
    let Some(((owner, asked), completed_at)) = lease.owner.zip(asked).zip(completed_at) else { return false };
    let completed_at = completed_at.max(lease.created_at);
    let (limit, gateway) = (tiers.options.outbox_limit, &*tiers.outbox.name);
    let generation = &*generation;
    let finish = Finish { generation, record, fence, owner, limit, asked, completed_at, response, gateway };
    let until = Instant::now() + tiers.options.front_timeout;
    match tiers.front_breaker.run(until, tiers.front.finish(finish)).await {
        Ok(Some((sent, retention))) => {
            let expires_at = completed_at.after(retention);
            let completion = Completion { completed_at, expires_at, response: Arc::new(response.clone()) };
            let owner = lease.owner;
            tiers.outbox.keep(Entry { record, fence, owner, claim: None, completion: Some(completion) }, sent);
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "the front could not be told of a completion");
            false
        }
    }
}
