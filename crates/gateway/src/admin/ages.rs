//! How long what is in flight has been there.

use std::time::{Duration, Instant};

use oncegate_core::{Filter, Record, StateName, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::records::desk::{self, Desk};

// === types ===

/// Remembers what the store said, so that many open pages ask it no more often than one.
#[derive(Debug, Default)]
pub(super) struct Ages(Mutex<Option<(Instant, Option<AgeCounts>)>>);

/// How many records in flight are how old, counted from their first claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgeCounts {
    /// By [`BOUNDS`], and then those that are older.
    pub(super) counts: [u64; BOUNDS.len() + 1],
    /// Whether there are more, all of them younger than these.
    pub(super) is_cut: bool,
}

/// An execution takes less than a second, a slow one less than its default lease of 30 s; what is older has a long lease
/// or was taken over again and again.
pub(super) const BOUNDS: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
];

/// As often as the records are counted.
const FRESH: Duration = Duration::from_secs(5);

// === impl Ages ===

impl Ages {
    /// What the store said within the last five seconds; `None` if it did not.
    pub(super) async fn of(&self, desk: &Desk) -> Option<AgeCounts> {
        let mut last = self.0.lock().await;
        if let Some((_, counts)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return counts.clone();
        }
        let filter = Filter { state: Some(StateName::InFlight), ..Filter::default() };
        // That the store does not answer is logged by the census, and shown by the page otherwise.
        let counts = desk.list(&filter).await.ok().map(|records| AgeCounts::of(&records, desk::now()));
        *last = Some((Instant::now(), counts.clone()));
        counts
    }
}

// === impl AgeCounts ===

impl AgeCounts {
    fn of(records: &[Record], now: Timestamp) -> Self {
        let mut ages = Self { is_cut: records.len() >= Filter::ROWS_MAX, ..Self::default() };
        for record in records {
            ages.counts[place(now.since(record.created_at))] += 1;
        }
        ages
    }

    /// `up_to_seconds` is `null` for those that are older than all bounds.
    pub(super) fn json(&self) -> Value {
        let bounds = BOUNDS.iter().map(|bound| Some(bound.as_secs())).chain([None]);
        let ages: Vec<_> =
            bounds.zip(self.counts).map(|(bound, count)| json!({ "up_to_seconds": bound, "records": count })).collect();
        json!(ages)
    }
}

fn place(age: Duration) -> usize {
    BOUNDS.iter().position(|bound| age < *bound).unwrap_or(BOUNDS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_belongs_to_the_first_bound_above_it() {
        for (age, index) in [(0, 0), (999, 0), (1000, 1), (29_999, 2), (30_000, 3), (599_999, 4), (600_000, 5)] {
            assert_eq!(place(Duration::from_millis(age)), index, "{age} ms");
        }
    }
}
