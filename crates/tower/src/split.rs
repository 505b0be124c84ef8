//! One key and fingerprint under two scopes: the credential that names a caller changes between its
//! retries, so the repeat executes. Found here, reported, never blocked.

use std::hash::{BuildHasher, RandomState};

use oncegate_core::ClaimRequest;
use quick_cache::sync::Cache;

/// The scopes in which keys were last seen; the least recent are forgotten.
#[derive(Debug)]
pub(crate) struct SplitScopes {
    scopes: Cache<u64, u64>,
    hasher: RandomState,
}

impl SplitScopes {
    /// How many keys are remembered, in about 1 MiB.
    const KEYS_MAX: usize = 32 * 1024;

    pub(crate) fn new() -> Self {
        Self { scopes: Cache::new(Self::KEYS_MAX), hasher: RandomState::new() }
    }

    /// Whether this key was last seen with the same fingerprint in another scope. Two hashes of 64
    /// bits are kept, under a secret of this process; a collision costs one wrong count.
    pub(crate) fn is_split(&self, request: &ClaimRequest) -> bool {
        let key = self.hasher.hash_one((request.id.key(), request.fingerprint));
        let scope = self.hasher.hash_one(request.id.scope());
        let previous = self.scopes.get(&key);
        if previous != Some(scope) {
            self.scopes.insert(key, scope);
        }
        previous.is_some_and(|previous| previous != scope)
    }
}
