//! A lone caller: what a claim takes when nobody shares its commit, beside what one plain INSERT takes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_store::postgres::yardstick::PlainRecipe;

use super::{
    load::{Caller, Recipe, Seen},
    place::{Database, Place, warm},
};

/// What both took, in one run.
#[derive(Debug)]
pub(super) struct Lone {
    pub(super) ours: Seen,
    pub(super) plain: Seen,
}

// === impl Lone ===

impl Lone {
    /// Takes turns cycle by cycle, so that whatever slows the machine down slows both.
    pub(super) async fn measure(place: &Place, database: &Database, label: &str, seconds: u32) -> anyhow::Result<Self> {
        place.checkpoint().await?;
        let ours = Recipe::Ours(warm(database).await?);
        let plain = Recipe::Plain(Arc::new(PlainRecipe::open(database.server.address(), 1).await?));
        let (mut ours, mut plain) = (Caller::new(ours, 0, label), Caller::new(plain, 0, label));
        let mut lone = Self { ours: Seen::none(), plain: Seen::none() };
        let until = Instant::now() + Duration::from_secs(seconds.into());
        while Instant::now() < until {
            ours.cycle(&mut lone.ours).await?;
            plain.cycle(&mut lone.plain).await?;
        }
        let [claim, insert] = lone.micros();
        eprintln!("  alone      {claim:>8.0} µs for a claim, {insert:.0} µs for a plain INSERT");
        Ok(lone)
    }

    /// The medians of a claim and of an INSERT.
    pub(super) fn micros(&self) -> [f64; 2] {
        [&self.ours, &self.plain].map(|seen| super::load::number(seen.first.value_at_quantile(0.5)))
    }

    /// How many times an INSERT a claim takes.
    pub(super) fn ratio(&self) -> f64 {
        let [claim, insert] = self.micros();
        claim / insert
    }
}
