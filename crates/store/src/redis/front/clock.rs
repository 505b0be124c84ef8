//! What the clocks of the front's servers show, without asking them.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Instant,
};

use super::super::layout::Tag;

/// By tag, how far the clock of its server was ahead of ours when it last answered. What is said from then on is too
/// early by the time that the answer took, and never too late: copies may end early.
#[derive(Debug)]
pub(super) struct Clocks {
    begin: Instant,
    ahead: Vec<AtomicI64>,
}

/// No server has answered yet.
const UNKNOWN: i64 = i64::MIN;

// === impl Clocks ===

impl Clocks {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), ahead: Tag::all().map(|_| AtomicI64::new(UNKNOWN)).collect() }
    }

    /// The server of this tag showed `server` in an answer that came at `received`.
    pub(super) fn note(&self, tag: Tag, server: i64, received: Instant) {
        self.of(tag).store(server.saturating_sub(self.since_begin(received)), Ordering::Relaxed);
    }

    pub(super) fn now(&self, tag: Tag) -> Option<i64> {
        match self.of(tag).load(Ordering::Relaxed) {
            UNKNOWN => None,
            ahead => Some(ahead.saturating_add(self.since_begin(Instant::now()))),
        }
    }

    fn of(&self, tag: Tag) -> &AtomicI64 {
        &self.ahead[tag.number()]
    }

    fn since_begin(&self, moment: Instant) -> i64 {
        i64::try_from(moment.saturating_duration_since(self.begin).as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use oncegate_core::RecordDigest;

    use super::*;

    #[test]
    fn a_clock_is_known_from_its_first_answer_on_and_goes_on_by_itself() {
        let (clocks, tag) = (Clocks::new(), Tag::of(RecordDigest::from_bytes([7; 16])));
        assert_eq!(clocks.now(tag), None);
        clocks.note(tag, 1_000_000_000, Instant::now());
        let first = clocks.now(tag).unwrap();
        assert!(first >= 1_000_000_000 && clocks.now(tag).unwrap() >= first);
        clocks.note(tag, 5, Instant::now());
        assert!(clocks.now(tag).unwrap() < 1_000_000_000, "also back");
    }
}
