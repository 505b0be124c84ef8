//! Tries whether the store can be written, and keeps nothing behind.

use std::{sync::Arc, time::Duration};

use oncegate_core::{
    Backend, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Operation, Owner, Policy, RecordId, Scope, Store,
    StoreError,
};

/// The record has ended by then even if it cannot be withdrawn, together with its lease: it is never abandoned.
const LIFE: Duration = Duration::from_secs(1);

/// Takes and gives back the right to write, which a file that another process has locked, or that may only be read,
/// refuses. Nothing is changed, so it costs no write to the disk.
///
/// # Errors
/// Those of the store.
pub(super) async fn lock(store: &dyn Store) -> Result<(), StoreError> {
    let (request, owner) = claim();
    // Nobody made this claim, so there is nothing to withdraw.
    store.withdraw(request.id.digest(), owner).await.map(drop)
}

/// Writes as a request with a key would, which is the only way to find out that a disk is full. It draws a fence, as
/// every claim does.
///
/// # Errors
/// Those of the store.
///
/// # Cancellation
/// The record may be left; it has ended before anybody could call it abandoned.
pub(super) async fn write(store: &dyn Store) -> Result<(), StoreError> {
    let (request, owner) = claim();
    store.claim(&request).await?;
    // A stale one has expired meanwhile.
    store.withdraw(request.id.digest(), owner).await.map(drop)
}

fn claim() -> (ClaimRequest, Owner) {
    let owner = Owner::random();
    let mut policy = Policy::gateway(Backend::Idempotent);
    (policy.lease, policy.retention) = (LIFE, LIFE);
    // No caller's scope: those that name a caller have a part for it, and the shared one is anonymous.
    let scope = Scope::from_text("oncegate=5:probe").expect("a short text is a scope");
    // Another key each time: several gates may try one store at once.
    let key = uuid::Uuid::new_v4().to_string();
    let request = ClaimRequest {
        id: RecordId::new(scope, IdempotencyKey::new(&key).expect("a UUID is a key")),
        fingerprint: Fingerprint::from_bytes(&[0]).expect("one byte is a fingerprint"),
        owner: Some(owner),
        operation: Operation::new("PROBE", ""),
        spelling: KeySpelling::Bare,
        policy: Arc::new(policy),
    };
    (request, owner)
}
