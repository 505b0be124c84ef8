//! The verbs that follow a claim.

use std::time::Duration;

use oncegate_core::{DoubtReason, Lease, Owner, RecordDigest, StoredResponse};

use super::{
    caller::Sent,
    layout::{self, Tag},
    options::Options,
    script::{COMPLETE, Call, DOUBT, EXTEND, RELEASE, Script, WITHDRAW},
};

pub(super) fn extend(lease: &Lease, length: Duration, sent: &Sent<'_>, options: &Options) -> Call {
    under(lease, &EXTEND, sent, options).with(length)
}

pub(super) fn complete(lease: &Lease, response: &StoredResponse, sent: &Sent<'_>, options: &Options) -> Call {
    with_response(under(lease, &COMPLETE, sent, options), response)
}

pub(super) fn doubt(lease: &Lease, reason: &DoubtReason, sent: &Sent<'_>, options: &Options) -> Call {
    under(lease, &DOUBT, sent, options).with(reason.as_str())
}

pub(super) fn release(lease: &Lease, sent: &Sent<'_>, options: &Options) -> Call {
    under(lease, &RELEASE, sent, options)
}

pub(super) fn withdraw(record: RecordDigest, owner: Owner, sent: &Sent<'_>, options: &Options) -> Call {
    let keys = Tag::of(record).keys_of(record, &layout::withdrawal(Some(&owner)));
    let call = Call::new(&WITHDRAW, keys, options.now()).with(sent.handle).with(sent.number);
    call.with(&owner.as_bytes()[..])
}

/// A response in three arguments.
pub(super) fn with_response(call: Call, response: &StoredResponse) -> Call {
    let StoredResponse { status, body, .. } = response;
    let call = call.with(u64::from(*status)).with(&*response.headers_json()).with(body.is_some());
    call.with(body.as_deref().unwrap_or_default())
}

/// A call that names record, fence and, where there is one, owner.
fn under(lease: &Lease, script: &'static Script, sent: &Sent<'_>, options: &Options) -> Call {
    let keys = Tag::of(lease.record).keys_of(lease.record, &layout::call(sent));
    let call = Call::new(script, keys, options.now()).with(lease.fence.get());
    call.with(lease.owner.as_ref().map_or(&[][..], |owner| Owner::as_bytes(owner)))
}
