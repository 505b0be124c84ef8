//! What a run has seen, so that a run in which nothing happened does not count as a success.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use super::{
    super::trial::word,
    call::{Call, Event, History, Reply},
};
use crate::{Claim, Written};

/// How often each thing was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    seen: BTreeMap<String, u64>,
}

/// What every run must have seen, and in how many of a hundred histories' worth at least.
const EXPECTED: [(&str, u64); 27] = [
    ("claim acquired", 100),
    ("claim taken over", 10),
    ("claim recognised", 10),
    ("claim completed", 30),
    ("claim in_flight", 100),
    ("claim mismatch", 10),
    ("claim unknown", 10),
    ("claim rules_changed", 3),
    ("complete done", 30),
    ("complete stale", 30),
    ("extend done", 10),
    ("extend stale", 10),
    ("doubt done", 10),
    ("doubt stale", 10),
    ("release done", 10),
    ("release stale", 10),
    ("withdraw done", 10),
    ("withdraw stale", 10),
    ("resolve done", 3),
    ("resolve stale", 10),
    ("purge done", 3),
    ("purge stale", 10),
    ("reap doubted", 3),
    ("reap expired", 3),
    ("get found", 10),
    ("get absent", 3),
    ("round contended", 100),
];

impl Tally {
    /// How often this was seen.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.seen.get(what).copied().unwrap_or(0)
    }

    /// What was seen too rarely for a run of so many histories.
    pub(super) fn missing(&self, histories: u64) -> Vec<&'static str> {
        let is_missing = |(what, per_hundred): &(&str, u64)| self.of(what) < per_hundred * histories / 100;
        EXPECTED.into_iter().filter(is_missing).map(|(what, _)| what).collect()
    }

    /// Adds what another run has seen.
    pub(super) fn merge(&mut self, other: Self) {
        other.seen.into_iter().for_each(|(what, count)| self.add(&what, count));
    }

    pub(super) fn count(&mut self, history: &History) {
        let mut fences = HashSet::new();
        for round in &history.rounds {
            for event in &round.events {
                self.count_event(event, &mut fences);
            }
            let contended = |event: &Event| round.events.iter().any(|other| contend(event, other));
            if round.events.iter().any(contended) {
                self.add("round contended", 1);
            }
        }
    }

    fn count_event(&mut self, event: &Event, fences: &mut HashSet<(crate::RecordDigest, i64)>) {
        let verb = event.call.verb();
        match &event.reply {
            Reply::Claim(Claim::Acquired(lease)) => {
                let is_new = fences.insert((lease.record, lease.fence.get()));
                let what = match (is_new, lease.attempt) {
                    (false, _) => "claim recognised",
                    (true, 1) => "claim acquired",
                    (true, _) => "claim taken over",
                };
                self.add(what, 1);
            }
            Reply::Claim(claim) => self.add(&format!("claim {}", word(claim)), 1),
            Reply::Written(Written::Done) => self.add(&format!("{verb} done"), 1),
            Reply::Written(Written::Stale) => self.add(&format!("{verb} stale"), 1),
            Reply::Found(found) => self.add(if found.is_some() { "get found" } else { "get absent" }, 1),
            Reply::Reaped(reaped) => {
                self.add("reap expired", reaped.expired as u64);
                self.add("reap doubted", reaped.doubted as u64);
            }
            Reply::Failed(_) => self.add(&format!("{verb} failed"), 1),
        }
    }

    fn add(&mut self, what: &str, count: u64) {
        *self.seen.entry(what.to_owned()).or_default() += count;
    }
}

/// Whether two callers of one round want to write the same record.
fn contend(one: &Event, other: &Event) -> bool {
    let is_write = |call: &Call| !matches!(call, Call::Get(_));
    one.caller != other.caller
        && one.call.record() == other.call.record()
        && is_write(&one.call)
        && is_write(&other.call)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen.iter().try_for_each(|(what, count)| writeln!(f, "{count:>9}  {what}"))
    }
}
