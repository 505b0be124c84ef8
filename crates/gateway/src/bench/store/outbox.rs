//! The store behind a Redis that takes claims and completions, against the same where PostgreSQL takes them; and how fast
//! PostgreSQL has what was taken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use oncegate_core::Store;
use oncegate_store::{
    observer::{Event, Observer},
    tiered::{Durability, Options, TieredStore},
};

use super::{
    Size,
    load::{Recipe, Seen},
    place::{Database, Place},
    report::{Kind, Report, Round},
    row::Row,
};
use crate::bench::redis::Servers;

// === types ===

/// How far PostgreSQL was behind at most, in microseconds.
#[derive(Debug, Default)]
struct Lag(AtomicU64);

/// An outbox is not closed for being slow, so that how slow it was is reported; less than a lease, or completions would be
/// PostgreSQL's.
const LIMIT: Duration = Duration::from_secs(20);

/// For how long an outbox is filled from which nothing is drained.
const HELD_SECONDS_MAX: u32 = 5;

/// How long an outbox may take to be opened.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

// === the rounds ===

/// Runs all rounds, on two databases: whose gateways want no outbox, and whose do.
pub(super) async fn measure(place: &Place, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new(Kind::Outbox, size, place.address().to_string());
    report.server = Some(place.about().clone());
    report.notes = place.notes();
    let (without, with) = (place.database(0).await?, place.database(1).await?);
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        let servers = [Servers::single().await?, Servers::single().await?];
        let urls = servers.each_ref().map(Servers::url);
        without.server.empty().await?;
        with.server.empty().await?;
        let lag = Arc::<Lag>::default();
        let store = open(&without, &urls[0], Durability::Authoritative, &lag).await?;
        let mut rows = vec![place.load(&without, "authoritative", store, size).await?];
        let store = open(&with, &urls[1], Durability::Outbox, &lag).await?;
        rows.push(place.load(&with, "outbox", store, size).await?);
        report.lags.push(Duration::from_micros(lag.0.load(Ordering::Relaxed)));
        let store = open(&with, &urls[1], Durability::Outbox, &lag).await?;
        rows.push(drained(&with, store, size).await?);
        report.rounds.push(Round { rows, lone: None });
        for servers in servers {
            servers.stop().await?;
        }
    }
    Ok(report)
}

/// Fills an outbox from which nothing is drained, and then measures how fast it is.
async fn drained(database: &Database, store: Arc<TieredStore>, size: Size) -> anyhow::Result<Row> {
    let since = database.server.now().await?;
    database.server.hold_outbox_back().await?;
    let label = uuid::Uuid::new_v4().simple().to_string();
    let (recipe, seconds) = (Recipe::Ours(Arc::clone(&store) as Arc<dyn Store>), size.seconds.min(HELD_SECONDS_MAX));
    let kept = recipe.load(&label, size.callers, seconds).await?;
    ensure!(database.server.completed_since(&since).await? == 0, "the outbox was not held back");
    database.server.let_outbox_go().await?;
    let begun = Instant::now();
    store.drained().await;
    let seen = Seen { cycles: kept.cycles, took: begun.elapsed(), ..Seen::none() };
    eprintln!("  {:<10} {:>8.0} records/s", "drained", seen.per_second());
    let counted = database.server.completed_since(&since).await?;
    Ok(Row { name: "drained".to_owned(), callers: size.callers, counted, ..Row::of(seen) })
}

/// A store that is ready: its outbox is open, where it wants one.
async fn open(
    database: &Database,
    front: &str,
    durability: Durability,
    lag: &Arc<Lag>,
) -> anyhow::Result<Arc<TieredStore>> {
    let mut options = Options::default();
    (options.durability, options.outbox_limit) = (durability, LIMIT);
    options.back.observer = Arc::<Lag>::clone(lag);
    let store = TieredStore::open(database.server.address(), &front.parse()?, options)?;
    store.stand().await.context("the front cannot be used")?;
    let until = Instant::now() + PATIENCE;
    while store.has_outbox() != (durability == Durability::Outbox) {
        ensure!(Instant::now() < until, "the outbox was not opened");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Arc::new(store))
}

// === impl Lag ===

impl Observer for Lag {
    fn observe(&self, event: &Event) {
        if let Event::Outbox { lag, .. } = event {
            self.0.fetch_max(u64::try_from(lag.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}
