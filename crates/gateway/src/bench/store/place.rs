//! Where a measurement takes place: databases of its own on a server, and what it costs there.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use oncegate_core::{IdempotencyKey, RecordId, Scope, Store};
use oncegate_store::postgres::{
    Address, Options, PostgresStore,
    yardstick::{About, Counters, PlainRecipe, Server, Shop, Strategy},
};

use super::{
    load::{Recipe, Seen},
    row::{Counted, Row},
};
use crate::bench::cpu;

/// How long connections may take to be gone, after which the server has counted what they did.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A server, and databases of the measurement's own there.
#[derive(Debug)]
pub(super) struct Place {
    server: Server,
    about: About,
    postmaster: Option<u32>,
    /// What the databases' names begin with; nobody else's do.
    prefix: String,
    may_checkpoint: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Database {
    name: String,
    pub(super) server: Server,
}

/// What is read before and after a row.
struct Meter {
    client_cpu: Duration,
    server_cpu: Option<Duration>,
    counters: Counters,
}

// === impl Place ===

impl Place {
    /// Which databases a place can have.
    const NAMES: [&str; 2] = ["a", "b"];

    /// Connects, and refuses a server whose figures would say nothing.
    pub(super) async fn prepare(address: &Address, postmaster: Option<u32>) -> anyhow::Result<Self> {
        let server = Server::connect(address).await.with_context(|| format!("store {address}"))?;
        let about = server.about().await?;
        for (name, refused) in [("fsync", "off"), ("synchronous_commit", "off")] {
            let is_durable = about.setting(name) != Some(refused);
            ensure!(
                is_durable,
                "{name} is {refused} on this server: what it answers is not durable, so its figures say nothing"
            );
        }
        let prefix = format!("oncegate_bench_{}", uuid::Uuid::new_v4().simple());
        let may_checkpoint = server.checkpoint().await.is_ok();
        let postmaster = postmaster.or_else(|| postmaster_of(&about));
        Ok(Self { server, about, postmaster, prefix, may_checkpoint })
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    pub(super) fn address(&self) -> &Address {
        self.server.address()
    }

    /// What a reader has to know beside the figures.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.may_checkpoint {
            notes.push("this role may not CHECKPOINT: rows pay for what was written before them".to_owned());
        }
        if self.postmaster.is_none() {
            notes.push("the server's processes cannot be seen from here: its CPU time is not known".to_owned());
        }
        notes
    }

    /// Makes a database.
    pub(super) async fn database(&self, number: usize) -> anyhow::Result<Database> {
        let name = self.name(Self::NAMES[number]);
        let made = self.server.make_database(&name).await;
        let server = made.context("no database of the measurement's own can be made: grant the role CREATEDB")?;
        Ok(Database { name, server })
    }

    /// Drops what was made.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        for name in Self::NAMES {
            self.server.drop_database(&self.name(name)).await?;
        }
        Ok(())
    }

    /// Writes everything to the disk, where that is allowed.
    pub(super) async fn checkpoint(&self) -> anyhow::Result<()> {
        if self.may_checkpoint {
            self.server.checkpoint().await?;
        }
        Ok(())
    }

    /// Measures the plain recipe on a pool, in a table made anew.
    pub(super) async fn plain(&self, database: &Database, pool: usize, size: super::Size) -> anyhow::Result<Row> {
        self.checkpoint().await?;
        let plain = Arc::new(PlainRecipe::open(database.server.address(), pool).await?);
        let recipe = Recipe::Plain(Arc::clone(&plain));
        let before = self.meter(database).await?;
        let seen = recipe.load("plain", size.callers, size.seconds).await?;
        let after = self.meter(database).await?;
        let counted = plain.completed().await?;
        drop((recipe, plain));
        self.row(format!("plain-{pool}"), size.callers, database, (before, after), seen, counted).await
    }

    /// Measures a strategy in SQL, each caller on a connection of its own.
    pub(super) async fn strategy(
        &self,
        database: &Database,
        strategy: Strategy,
        size: super::Size,
    ) -> anyhow::Result<Row> {
        self.checkpoint().await?;
        let shop = Arc::new(Shop::open(database.server.address(), strategy, size.callers).await?);
        let recipe = Recipe::Shop(Arc::clone(&shop));
        let before = self.meter(database).await?;
        let label = uuid::Uuid::new_v4().simple().to_string();
        let seen = recipe.load(&label, size.callers, size.seconds).await?;
        let after = self.meter(database).await?;
        let counted = shop.effects().await?;
        drop((recipe, shop));
        self.row(strategy.name().to_owned(), size.callers, database, (before, after), seen, counted).await
    }

    /// Measures the store; `amid`: with a checkpoint in the middle.
    pub(super) async fn ours(
        &self,
        database: &Database,
        name: &str,
        size: super::Size,
        amid: bool,
    ) -> anyhow::Result<Row> {
        self.checkpoint().await?;
        let store = warm(database).await?;
        let (row, ()) = tokio::try_join!(self.load(database, name, store, size), self.checkpoint_amid(size, amid))?;
        Ok(row)
    }

    /// Measures a store on this database.
    pub(super) async fn load(
        &self,
        database: &Database,
        name: &str,
        store: Arc<dyn Store>,
        size: super::Size,
    ) -> anyhow::Result<Row> {
        let label = uuid::Uuid::new_v4().simple().to_string();
        let since = database.server.now().await?;
        let before = self.meter(database).await?;
        let seen = Recipe::Ours(Arc::clone(&store)).load(&label, size.callers, size.seconds).await?;
        store.drained().await;
        let after = self.meter(database).await?;
        let counted = database.server.completed_since(&since).await?;
        drop(store);
        self.row(name.to_owned(), size.callers, database, (before, after), seen, counted).await
    }

    async fn checkpoint_amid(&self, size: super::Size, amid: bool) -> anyhow::Result<()> {
        if !amid {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(size.seconds.into()) / 2).await;
        self.checkpoint().await
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a row, each once")]
    async fn row(
        &self,
        name: String,
        callers: usize,
        database: &Database,
        (before, after): (Meter, Meter),
        seen: Seen,
        counted: u64,
    ) -> anyhow::Result<Row> {
        let commits = self.commits(database).await?.saturating_sub(before.counters.commits);
        eprintln!("  {name:<10} {:>8.0} cycles/s", seen.per_second());
        let server_cpu = after.server_cpu.zip(before.server_cpu).map(|(after, before)| after.saturating_sub(before));
        let counters = Counted {
            commits,
            wal_bytes: after.counters.wal_bytes.saturating_sub(before.counters.wal_bytes),
            had_checkpoint: after.counters.checkpoint != before.counters.checkpoint,
        };
        let client_cpu = after.client_cpu.saturating_sub(before.client_cpu);
        Ok(Row { name, callers, seen, counted, client_cpu, server_cpu, counters: Some(counters) })
    }

    /// The commits of a database, once everybody else has left it.
    async fn commits(&self, database: &Database) -> anyhow::Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counters = self.server.counters(&database.name).await?;
            // The connection for measuring stays.
            if counters.others <= 1 || Instant::now() > deadline {
                return Ok(counters.commits);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn meter(&self, database: &Database) -> anyhow::Result<Meter> {
        Ok(Meter {
            counters: self.server.counters(&database.name).await?,
            client_cpu: cpu::of_process(std::process::id())?,
            server_cpu: self.postmaster.map(cpu::of_family).transpose()?,
        })
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}_{suffix}", self.prefix)
    }
}

/// A store whose connections stand.
pub(super) async fn warm(database: &Database) -> anyhow::Result<Arc<dyn Store>> {
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(database.server.address(), Options::default()));
    // Enough different ones to reach each lane.
    for number in 0..32 {
        let id = RecordId::new(Scope::anonymous(), IdempotencyKey::new(&format!("warm-{number}"))?);
        store.get(id.digest()).await?;
    }
    Ok(store)
}

/// The server's first process, if it runs on this machine: the parent of the one that serves us, whose title names our
/// server's program.
fn postmaster_of(about: &About) -> Option<u32> {
    let name = fs::read_to_string(format!("/proc/{}/comm", about.process)).ok()?;
    (about.is_local && name.trim_end() == "postgres").then(|| cpu::parent_of(about.process)).flatten()
}
