//! The load: callers that go on as soon as they have their answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use hdrhistogram::Histogram;
use oncegate_core::{Backend, Claim, Policy, Store, Written};
use oncegate_store::postgres::yardstick::{PlainRecipe, Shop};
use tokio::task::JoinSet;

use crate::bench::cycle;

/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 3;

/// A way to guard a request.
#[derive(Debug, Clone)]
pub(super) enum Recipe {
    Ours(Arc<dyn Store>),
    /// Claims that nobody completes.
    Claims(Arc<dyn Store>),
    Plain(Arc<PlainRecipe>),
    /// With a handler of one INSERT; the whole request is one step.
    Shop(Arc<Shop>),
}

/// What the callers saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) cycles: u64,
    pub(super) took: Duration,
    /// Microseconds of each claim, or INSERT.
    pub(super) first: Histogram<u64>,
    /// Microseconds of each completion, or UPDATE.
    pub(super) second: Histogram<u64>,
}

/// Who calls, and with which answer.
#[derive(Debug)]
pub(super) struct Caller {
    recipe: Recipe,
    number: usize,
    /// Keys are new in it.
    scope: String,
    policy: Arc<Policy>,
    response: oncegate_core::StoredResponse,
}

// === impl Recipe ===

impl Recipe {
    /// Lets so many callers ask for so long. `label` has not been used in this database before.
    pub(super) async fn load(&self, label: &str, callers: usize, seconds: u32) -> anyhow::Result<Seen> {
        let started = Instant::now();
        let until = started + Duration::from_secs(seconds.into());
        // Callers end with the set, so that nothing goes on when this is given up.
        let mut set = JoinSet::new();
        for number in 0..callers {
            let mut caller = Caller::new(self.clone(), number, label);
            set.spawn(async move {
                let mut seen = Seen::none();
                while Instant::now() < until {
                    caller.cycle(&mut seen).await?;
                }
                anyhow::Ok(seen)
            });
        }
        let mut sum = Seen::none();
        while let Some(seen) = set.join_next().await {
            sum.add(&seen??);
        }
        sum.took = started.elapsed();
        Ok(sum)
    }
}

// === impl Caller ===

impl Caller {
    pub(super) fn new(recipe: Recipe, number: usize, label: &str) -> Self {
        let scope = format!("{label}-{number}");
        let policy = Arc::new(Policy::gateway(Backend::Plain));
        Self { recipe, number, scope, policy, response: cycle::response() }
    }

    /// One request, guarded.
    pub(super) async fn cycle(&mut self, seen: &mut Seen) -> anyhow::Result<()> {
        let key = format!("{}-{}", self.scope, seen.cycles);
        let (asked, claimed, completed);
        match &self.recipe {
            Recipe::Ours(store) => {
                let request = cycle::request(&self.scope, &key, &self.policy)?;
                asked = Instant::now();
                let claim = store.claim(&request).await?;
                claimed = Instant::now();
                let Claim::Acquired(lease) = claim else { anyhow::bail!("a new key was taken") };
                let written = store.complete(&lease, &self.response).await?;
                completed = Instant::now();
                ensure!(written == Written::Done, "a completion was stale");
            }
            Recipe::Claims(store) => {
                let request = cycle::request(&self.scope, &key, &self.policy)?;
                asked = Instant::now();
                let claim = store.claim(&request).await?;
                claimed = Instant::now();
                completed = claimed;
                ensure!(matches!(claim, Claim::Acquired(_)), "a new key was taken");
            }
            Recipe::Plain(recipe) => {
                asked = Instant::now();
                let is_free = recipe.insert(self.number, &key).await?;
                claimed = Instant::now();
                ensure!(is_free, "a new key was taken");
                let body = self.response.body.as_deref().unwrap_or_default();
                let is_stored = recipe.update(self.number, &key, body).await?;
                completed = Instant::now();
                ensure!(is_stored, "a completion was stale");
            }
            Recipe::Shop(shop) => {
                let body = self.response.body.as_deref().unwrap_or_default();
                asked = Instant::now();
                let is_executed = shop.serve(self.number, &self.scope, &key, body).await?;
                claimed = Instant::now();
                completed = claimed;
                ensure!(is_executed, "a new key was taken");
            }
        }
        seen.cycles += 1;
        seen.first.record(micros(claimed - asked))?;
        seen.second.record(micros(completed - claimed))?;
        Ok(())
    }
}

// === impl Seen ===

impl Seen {
    pub(super) fn none() -> Self {
        let histogram = || Histogram::new(DIGITS).expect("3 digits are within the limits of the histogram");
        Self { cycles: 0, took: Duration::ZERO, first: histogram(), second: histogram() }
    }

    fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.first.add(&other.first).expect("a histogram without a maximum grows as needed");
        self.second.add(&other.second).expect("a histogram without a maximum grows as needed");
    }

    pub(super) fn per_second(&self) -> f64 {
        number(self.cycles) / self.took.as_secs_f64()
    }

    /// A cost of all cycles together, for each.
    pub(super) fn share_of(&self, cost: f64) -> f64 {
        cost / number(self.cycles.max(1))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}
