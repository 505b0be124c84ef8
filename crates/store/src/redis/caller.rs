//! Who calls: so that a call that the driver sends again, or a claim that arrives after its own withdrawal, is known.

use std::sync::atomic::{AtomicU64, Ordering};

/// A store, and how many calls it has made.
#[derive(Debug)]
pub(super) struct Caller {
    handle: String,
    last: AtomicU64,
}

/// One call. Of two calls of one handle the later has the greater number.
#[derive(Debug)]
pub(super) struct Sent<'a> {
    pub(super) handle: &'a str,
    pub(super) number: u64,
}

// === impl Caller ===

impl Caller {
    pub(super) fn new() -> Self {
        Self { handle: uuid::Uuid::new_v4().simple().to_string(), last: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> Sent<'_> {
        Sent { handle: &self.handle, number: self.last.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}
