//! What one request asks of a store: a claim, and its completion with a usual answer.

use std::sync::Arc;

use bytes::Bytes;
use oncegate_core::{
    ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Operation, Owner, Policy, RecordId, Scope, StoredResponse,
};

/// A usual JSON answer of a payment API.
pub(super) const BODY_BYTES: usize = 400;

/// A claim of this key.
pub(super) fn request(scope: &str, key: &str, policy: &Arc<Policy>) -> anyhow::Result<ClaimRequest> {
    Ok(ClaimRequest {
        id: RecordId::new(Scope::from_text(scope)?, IdempotencyKey::new(key)?),
        fingerprint: Fingerprint::from_bytes(&[7; Fingerprint::STRUCTURED_LENGTH])?,
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/api/payments"),
        spelling: KeySpelling::Bare,
        policy: Arc::clone(policy),
    })
}

/// What is stored with its completion.
pub(super) fn response() -> StoredResponse {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))];
    StoredResponse { status: 201, headers, body: Some(Bytes::from_static(&[b'x'; BODY_BYTES])) }
}
