//! The idempotency protocol of oncegate, without any I/O.
//!
//! The flow, and the files named after its steps:
//!
//! ```text
//! key + scope → fingerprint → claim → execute → complete → replay     (extend and reap in the background)
//! ```
//!
//! [`decide`] is the specification: it says what a claim of a record means, as a pure function. The
//! [`MemoryStore`] runs it; every other [`Store`] restates it as one atomic statement or script, and
//! the conformance suite (feature `conformance`) holds them to it.

mod audit;
mod claim;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod digest;
pub mod fingerprint;
mod key;
mod lease;
mod memory;
mod policy;
mod prefix;
mod record;
mod response;
mod scope;
mod store;
mod suspicion;

pub use crate::{
    audit::{AuditEntry, Note, NoteError, OperatorVerb, Seen},
    claim::{Claim, ClaimRequest, Completed, Decision, Doubted, FirstUse, decide},
    clock::{Clock, ManualClock, SystemClock, Timestamp},
    fingerprint::{Comparison, Fingerprint},
    key::{IdempotencyKey, KeyError, KeySpelling},
    lease::{Fence, Lease, Owner},
    memory::MemoryStore,
    policy::{Backend, Disposition, OnAbandoned, Policy, PolicyError, StatusTable},
    prefix::RecordPrefix,
    record::{DoubtReason, Operation, Record, RecordDigest, RecordId, State, StateName},
    response::StoredResponse,
    scope::{Scope, ScopeBuilder, ScopeError},
    store::{Census, ErrorKind, Filter, Reaped, Store, StoreError, Written},
    suspicion::Suspicion,
};
