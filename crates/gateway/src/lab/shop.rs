//! Where programs work: connections, the ledger that tells the truth, and what befalls workers.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use oncegate_store::lab::{Database, Refusal, Row, Session};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

use super::{
    cache::Cache,
    pool::{Connection, Pool},
};

// === types ===

/// For how long a worker may hold a key, in every program that has such a thing.
pub(super) const LEASE: Duration = Duration::from_millis(300);

/// How long the card network takes.
const PAY_TIME: Duration = Duration::from_millis(5);

/// How long a worker stands still that is paused: longer than its lease, and than the takeover after it.
const PAUSE: Duration = Duration::from_millis(900);

const HAS_CACHE: &str = "only programs of a lab with a cache ask for it";

/// What befalls the first worker of every key; from what every day has to what comes to everybody in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// It dies before it pays.
    CrashBeforeEffect,
    /// It dies after it paid, before it could say so; what was not committed is gone.
    CrashAfterEffect,
    /// It stands still for longer than its lease, and then goes on: a long garbage collection, a frozen machine.
    Pause,
    /// The Redis that the program remembers keys in restarts while it pays, and has kept nothing.
    CacheRestart,
}

/// A database with the ledger, and connections to it.
#[derive(Debug)]
pub(super) struct Shop {
    workers: Pool,
    /// Connections of their own, so that a look at the ledger never waits for a worker.
    auditors: Pool,
    /// None: Redis is not installed.
    cache: Option<Cache>,
    began: Instant,
}

/// One worker: a connection, once it needs one, for the time of one request.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    shop: &'a Shop,
    fate: Arc<Fate>,
    connection: OnceCell<Connection<'a>>,
}

/// What befalls whom.
#[derive(Debug)]
pub(super) struct Fate {
    fault: Fault,
    /// Keys whose first worker has been hit.
    hit: Mutex<HashSet<String>>,
    /// That of the cache is once for all keys.
    restart: OnceCell<()>,
}

/// Why a request has no answer of its program's.
#[derive(Debug)]
pub(super) enum Interrupted {
    /// The worker died: the client sees a connection that ends.
    Died,
    /// The database refused something, and the program does not expect it: the client sees 500.
    Failed(Refusal),
}

/// What the ledger says of some keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Paid {
    pub(super) payments: u64,
    pub(super) keys: u64,
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::CrashBeforeEffect => "crash before effect",
            Self::CrashAfterEffect => "crash after effect",
            Self::Pause => "pause",
            Self::CacheRestart => "restart of Redis",
        })
    }
}

// === impl Shop ===

impl Shop {
    /// The ledger takes every payment: whether there is one too many is for the reader to see.
    const LEDGER: &'static str = "CREATE TABLE payments (key text NOT NULL)";

    /// How many look at it at once.
    pub(super) const AUDITORS: usize = 8;

    /// Makes the ledger, for so many workers at once.
    pub(super) async fn open(database: Database, workers: usize, cache: Option<Cache>) -> Result<Self, Refusal> {
        let (workers, auditors) = (Pool::new(database.clone(), workers), Pool::new(database, Self::AUDITORS));
        let shop = Self { workers, auditors, cache, began: Instant::now() };
        shop.furnish(Self::LEDGER).await?;
        Ok(shop)
    }

    pub(super) fn database(&self) -> &Database {
        self.workers.database()
    }

    pub(super) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Makes what a program needs.
    pub(super) async fn furnish(&self, tables: &'static str) -> Result<(), Refusal> {
        let auditor = self.auditors.connection().await?;
        auditor.0.run(tables).await?;
        self.auditors.give_back(auditor);
        Ok(())
    }

    /// Opens connections that a storm will want at once.
    pub(super) async fn warm(&self, workers: usize) -> Result<(), Refusal> {
        self.auditors.warm(Self::AUDITORS).await?;
        self.workers.warm(workers).await
    }

    /// A worker for one request.
    pub(super) fn worker(&self, fate: &Arc<Fate>) -> Worker<'_> {
        Worker { shop: self, fate: Arc::clone(fate), connection: OnceCell::new() }
    }

    /// Whether a payment for this key is committed.
    pub(super) async fn is_paid(&self, key: &str) -> Result<bool, Refusal> {
        let rows = self.audit("SELECT key FROM payments WHERE key = $1 LIMIT 1", &[key]).await?;
        Ok(!rows.is_empty())
    }

    /// What the ledger says of keys that begin so; counted, not believed.
    pub(super) async fn paid(&self, prefix: &str) -> Result<Paid, Refusal> {
        let count = "SELECT CAST(count(*) AS text), CAST(count(DISTINCT key) AS text) FROM payments \
                     WHERE substr(key, 1, length($1)) = $1";
        let rows = self.audit(count, &[prefix]).await?;
        let number = |column: usize| rows.first()?.get(column)?.as_deref()?.parse().ok();
        Ok(Paid { payments: number(0).unwrap_or_default(), keys: number(1).unwrap_or_default() })
    }

    async fn audit(&self, sql: &'static str, values: &[&str]) -> Result<Vec<Row>, Refusal> {
        let auditor = self.auditors.connection().await?;
        let rows = auditor.0.rows(sql, values).await?;
        self.auditors.give_back(auditor);
        Ok(rows)
    }
}

// === impl Worker ===

impl Worker<'_> {
    /// The effect: a card network that takes its time, and a row in the ledger. Faults strike here, so that no program
    /// has to mention them.
    pub(super) async fn pay(&self, key: &str) -> Result<(), Interrupted> {
        match self.fate.of_first(key) {
            Fault::None => self.charge(key).await?,
            Fault::CrashBeforeEffect => return Err(Interrupted::Died),
            Fault::CrashAfterEffect => {
                self.charge(key).await?;
                return Err(Interrupted::Died);
            }
            Fault::Pause => {
                sleep(PAUSE).await;
                self.charge(key).await?;
            }
            Fault::CacheRestart => {
                let cache = self.shop.cache.as_ref().expect(HAS_CACHE);
                let restart = self.fate.restart.get_or_try_init(|| cache.restart()).await;
                restart.map_err(|error| Refusal { code: "no restart".to_owned(), source: error.into() })?;
                // Repeats come while it still pays.
                sleep(LEASE).await;
                self.charge(key).await?;
            }
        }
        Ok(())
    }

    async fn charge(&self, key: &str) -> Result<(), Refusal> {
        sleep(PAY_TIME).await;
        self.execute("INSERT INTO payments (key) VALUES ($1)", &[key]).await.map(drop)
    }

    /// Where a program remembers keys that does it in Redis.
    pub(super) fn cache(&self) -> &oncegate_store::lab::Cache {
        self.shop.cache.as_ref().expect(HAS_CACHE).client()
    }

    /// Runs statements without values, such as BEGIN.
    pub(super) async fn run(&self, sql: &'static str) -> Result<(), Refusal> {
        self.session().await?.run(sql).await
    }

    /// Runs one statement; returns how many rows it changed.
    pub(super) async fn execute(&self, sql: &'static str, values: &[&str]) -> Result<u64, Refusal> {
        self.session().await?.execute(sql, values).await
    }

    /// The rows of a query.
    pub(super) async fn rows(&self, sql: &'static str, values: &[&str]) -> Result<Vec<Row>, Refusal> {
        self.session().await?.rows(sql, values).await
    }

    /// Its connection; waits while all are in use.
    async fn session(&self) -> Result<&Session, Refusal> {
        self.connection.get_or_try_init(|| self.shop.workers.connection()).await.map(|(session, _)| session)
    }

    /// What befalls it, for whoever works in its place.
    pub(super) fn fate(&self) -> &Arc<Fate> {
        &self.fate
    }

    /// The time of programs that keep one, in milliseconds: all workers have the same.
    pub(super) fn now(&self) -> u128 {
        self.shop.began.elapsed().as_millis()
    }

    /// Ends the request as a web framework does: what failed is rolled back, and a worker that died is replaced.
    pub(super) async fn leave<T>(self, outcome: Result<T, Interrupted>) -> Result<T, Interrupted> {
        let Self { shop, connection, .. } = self;
        let Some(connection) = connection.into_inner() else { return outcome };
        match &outcome {
            Ok(_) => shop.workers.give_back(connection),
            Err(Interrupted::Died) => drop(connection),
            // Without a transaction there is nothing to roll back, which SQLite calls an error.
            Err(Interrupted::Failed(_)) => {
                drop(connection.0.run("ROLLBACK").await);
                shop.workers.give_back(connection);
            }
        }
        outcome
    }
}

// === impl Fate ===

impl Fate {
    pub(super) fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self { fault, hit: Mutex::default(), restart: OnceCell::new() })
    }

    /// What befalls the worker that is about to pay for this key.
    fn of_first(&self, key: &str) -> Fault {
        let is_first = self.hit.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        if is_first { self.fault } else { Fault::None }
    }
}

// === impl Interrupted ===

impl From<Refusal> for Interrupted {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal)
    }
}
