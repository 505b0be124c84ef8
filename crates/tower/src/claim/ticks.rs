//! When the store is asked again about a record that another process executes.

use std::time::Duration;

use oncegate_core::{Owner, RecordDigest};
use tokio::time::Instant;

/// Moments at which those who wait here for the same record ask, all together, so that it is one question of this
/// process; other processes ask at other moments, and about other records too.
#[derive(Debug)]
pub(crate) struct Ticks {
    begin: Instant,
    seed: u64,
}

// === impl Ticks ===

impl Ticks {
    /// Between two questions at first; it doubles, and a moment of a longer pause is one of the shorter ones too.
    pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
    /// The longest pause.
    pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(400);

    pub(crate) fn new() -> Self {
        let random = Owner::random();
        let (seed, _) = random.as_bytes().split_first_chunk().expect("a token has 16 bytes");
        Self { begin: Instant::now(), seed: u64::from_le_bytes(*seed) }
    }

    /// The first moment of this record that is not sooner than half a pause from now.
    pub(crate) fn next(&self, record: RecordDigest, pause: Duration) -> Instant {
        let (digest, _) = record.as_bytes().split_first_chunk().expect("a digest has 16 bytes");
        let shift = u64::from_le_bytes(*digest).wrapping_add(self.seed) % millis(Self::PAUSE_MAX);
        let begin = self.begin + Duration::from_millis(shift);
        let since = (Instant::now() + pause / 2).saturating_duration_since(begin);
        let ticks = millis(since) / millis(pause) + 1;
        begin + Duration::from_millis(ticks.saturating_mul(millis(pause)))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_a_record_ask_together_and_soon() {
        let (ticks, other) = (Ticks::new(), Ticks::new());
        let records = [1, 2].map(|byte| RecordDigest::from_bytes([byte; 16]));
        let mut moments = std::collections::BTreeSet::new();
        tokio::time::advance(Ticks::PAUSE_MAX * 3).await;
        let began = Instant::now();
        for _ in 0..100 {
            let next = ticks.next(records[0], Ticks::PAUSE_MAX);
            let pause = next - Instant::now();
            assert!(pause >= Ticks::PAUSE_MAX / 2 && pause <= Ticks::PAUSE_MAX * 3 / 2, "{pause:?}");
            moments.insert(next);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(moments.len() <= 4, "in a second: {:?}", moments.iter().map(|next| *next - began).collect::<Vec<_>>());
        let elsewhere = [ticks.next(records[1], Ticks::PAUSE_MAX), other.next(records[0], Ticks::PAUSE_MAX)];
        assert!(elsewhere.iter().any(|next| !moments.contains(next)));
    }
}
