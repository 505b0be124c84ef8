//! A lane storms one key after another over its own connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::time::sleep;

use super::burst::{Attempt, Ending, Repeat, Target, burst};
use super::connection::Connection;
use super::count::Count;
use super::plan::Plan;
use super::tally;
use super::template::NumberedKey;

/// The pause before the first wave of retries when no answer asks for a longer one. It doubles with each wave, up to the
/// maximum.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A plan whose addresses answered.
#[derive(Debug)]
pub(super) struct Storm {
    pub(super) plan: Plan,
    target: Target,
    count: Option<Count>,
}

/// What came of one key.
#[derive(Debug)]
pub(super) struct Stormed {
    pub(super) key: NumberedKey,
    /// The bursts, the first one with all repeats, each later one with the retries.
    pub(super) waves: Vec<Vec<Attempt>>,
    /// The effects by the count; `None` when there is none to ask.
    pub(super) counted: Option<u64>,
}

/// One line of work: one key at a time.
pub(super) struct Lane {
    storm: Arc<Storm>,
    idle: Vec<Connection>,
    /// The common count at the end of the key before. What is executed between two keys is found by the next one.
    last_count: Option<u64>,
}

/// A burst of retries.
struct Wave {
    repeats: usize,
    pause: Duration,
}

// === impl Storm ===

impl Storm {
    /// Resolves the addresses and finds out whether anybody listens.
    pub(super) async fn prepare(mut plan: Plan) -> anyhow::Result<Self> {
        let address = plan.request.endpoint.resolve().await?;
        let count = match plan.count.take() {
            Some(count) => Some(Count::prepare(count, plan.timeout).await?),
            None => None,
        };
        Ok(Self { target: Target::new(address, plan.timeout), count, plan })
    }

    /// Whether effects are counted, rather than told from the answers.
    pub(super) fn is_counted(&self) -> bool {
        self.count.is_some()
    }
}

// === impl Lane ===

impl Lane {
    pub(super) fn new(storm: &Arc<Storm>) -> Self {
        Self { storm: storm.clone(), idle: Vec::new(), last_count: None }
    }

    /// How many keys the whole storm has.
    pub(super) fn keys(&self) -> u32 {
        self.storm.plan.keys
    }

    /// Storms one fresh key and counts what it did.
    ///
    /// # Errors
    ///
    /// What makes going on useless: no repeat could connect, or the effects cannot be counted.
    pub(super) async fn storm_key(&mut self, number: u32) -> anyhow::Result<Stormed> {
        let storm = self.storm.clone();
        let key = NumberedKey::fresh(number);
        let Some(count) = &storm.count else {
            return Ok(Stormed { waves: self.waves(&key).await?, key, counted: None });
        };
        let before = match self.last_count {
            Some(last) => last,
            None => count.read(&key).await?,
        };
        let waves = self.waves(&key).await?;
        let after = match waves.iter().flatten().any(tally::may_still_execute) {
            true => count.read_settled(&key).await?,
            false => count.read(&key).await?,
        };
        if after < before {
            bail!("the count fell from {before} to {after}: it must only grow while the storm runs");
        }
        self.last_count = (!count.is_per_key()).then_some(after);
        Ok(Stormed { key, waves, counted: Some(after - before) })
    }

    /// The burst of all repeats, then, if asked for, bursts of those that are not decided.
    async fn waves(&mut self, key: &NumberedKey) -> anyhow::Result<Vec<Vec<Attempt>>> {
        let plan = &self.storm.plan;
        let request = plan.request.fill(key);
        let repeat = |hang_up_after| Repeat { request: request.clone(), hang_up_after };
        let repeats = (0..plan.concurrency).map(|index| repeat(plan.abort_after.filter(|_| hangs_up(index, plan))));
        let first = burst(&self.storm.target, &mut self.idle, repeats.collect()).await;
        check_connected(&first, key)?;

        let ended = Instant::now();
        let mut waves = vec![first];
        while let Some(Wave { repeats, pause }) = next_wave(plan.retry, &waves)
            && ended.elapsed().saturating_add(pause) <= plan.timeout
        {
            sleep(pause).await;
            let repeats = (0..repeats).map(|_| repeat(None));
            waves.push(burst(&self.storm.target, &mut self.idle, repeats.collect()).await);
        }
        Ok(waves)
    }
}

/// Every second repeat hangs up, and a lone one does.
fn hangs_up(index: u32, plan: &Plan) -> bool {
    index % 2 == 1 || plan.concurrency == 1
}

/// Without a single connection there is nothing to judge, and no reason to go on.
fn check_connected(attempts: &[Attempt], key: &NumberedKey) -> anyhow::Result<()> {
    let mut failure = None;
    for attempt in attempts {
        match &attempt.ending {
            Ending::NotConnected(reason) => failure = Some(reason),
            Ending::Answered(_) | Ending::HungUp | Ending::Failed(_) => return Ok(()),
        }
    }
    match failure {
        Some(reason) => bail!("no repeat of key {} could be sent: {reason}", key.number),
        None => Ok(()),
    }
}

/// What is sent again, if anything: all repeats that are not decided, after the pause that their answers ask for, at
/// least a little that grows with each wave.
fn next_wave(is_retried: bool, waves: &[Vec<Attempt>]) -> Option<Wave> {
    let undecided: Vec<&Attempt> = waves.last()?.iter().filter(|attempt| !tally::is_decided(attempt)).collect();
    if !is_retried || undecided.is_empty() {
        return None;
    }
    let doublings = u32::try_from(waves.len() - 1).unwrap_or(u32::MAX);
    let least = RETRY_PAUSE_MIN.saturating_mul(2_u32.saturating_pow(doublings)).min(RETRY_PAUSE_MAX);
    let asked = undecided.iter().filter_map(|attempt| attempt.retry_after()).max();
    Some(Wave { repeats: undecided.len(), pause: asked.map_or(least, |asked| asked.max(least)) })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::storm::connection::{Answer, BodyDigest};

    fn told_to_come_back(after: Option<u64>) -> Attempt {
        let ending = Ending::Answered(Answer {
            status: StatusCode::CONFLICT,
            is_replayed: false,
            retry_after: after.map(Duration::from_secs),
            body: BodyDigest::of(b""),
            latency: Duration::ZERO,
        });
        Attempt { ending, sent_at: None, is_late: false }
    }

    #[test]
    fn the_next_wave_waits_as_long_as_the_answers_ask_for() {
        let wave = next_wave(true, &[vec![told_to_come_back(Some(2)), told_to_come_back(Some(7))]]).unwrap();

        assert_eq!((wave.repeats, wave.pause), (2, Duration::from_secs(7)));
    }

    #[test]
    fn the_pause_has_a_floor_that_grows_up_to_its_limit() {
        let pause = |waves| {
            let waves: Vec<_> = (0..waves).map(|_| vec![told_to_come_back(Some(0))]).collect();
            next_wave(true, &waves).unwrap().pause
        };

        assert_eq!(pause(1), RETRY_PAUSE_MIN);
        assert_eq!(pause(2), RETRY_PAUSE_MIN * 2);
        assert_eq!(pause(100), RETRY_PAUSE_MAX);
    }

    #[test]
    fn nothing_is_sent_again_unless_asked_for() {
        assert!(next_wave(false, &[vec![told_to_come_back(None)]]).is_none());
        assert!(next_wave(true, &[vec![]]).is_none());
    }
}
