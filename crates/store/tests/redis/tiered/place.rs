//! A PostgreSQL and a Redis in front of it, and what tests ask of both.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{Claim, ClaimRequest, Clock, Lease, Store, SystemClock, Timestamp};
use oncegate_store::{
    postgres::{ClockOffset, Migrator},
    tiered::{Options, TieredStore},
};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::{postgres::Server as Postgres, server::Server as Redis};

/// Longer than anything takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What counts the statements of all who are connected.
pub(super) const COUNTING: &str = "shared_preload_libraries=pg_stat_statements";

/// Nobody pulls the plug here, so the disk need not keep up.
pub(super) const FAST: &str = "fsync=off";

/// Two servers, and a clock of both that can be moved on.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) postgres: Arc<Postgres>,
    pub(super) redis: Arc<Mutex<Redis>>,
    back: String,
    front: String,
    client: Arc<Client>,
    pub(super) clock: ClockOffset,
}

/// The clock of this machine, which is that of both servers, moved on.
#[derive(Debug)]
struct MovedClock(ClockOffset);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0.get())
    }
}

impl Place {
    pub(super) async fn start() -> Self {
        let postgres = Postgres::start(&[FAST, COUNTING]).await;
        postgres.migrator().await.migrate().await.unwrap();
        let client = postgres.connect().await;
        client.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
        let redis = Redis::start(&[]).await;
        let (back, front) = (postgres.address(), redis.address());
        let (postgres, redis) = (Arc::new(postgres), Arc::new(Mutex::new(redis)));
        Self { postgres, redis, back, front, client: Arc::new(client), clock: ClockOffset::default() }
    }

    /// The same without records and under a clock of its own.
    pub(super) async fn emptied(&self) -> Self {
        let tables =
            "TRUNCATE oncegate.records, oncegate.responses, oncegate.audit, oncegate.stragglers, oncegate.sweep;
                      INSERT INTO oncegate.sweep DEFAULT VALUES";
        self.client.batch_execute(tables).await.unwrap();
        self.flush().await;
        Self { clock: ClockOffset::default(), ..self.clone() }
    }

    /// Databases of their own on both servers, each pair under a clock of its own.
    pub(super) async fn divided(&self, count: usize) -> Vec<Self> {
        self.client.batch_execute("CREATE DATABASE pattern").await.unwrap();
        let at =
            |name: &str| format!("postgres://postgres@127.0.0.1:{}/{name}?connect_timeout=60", self.postgres.port());
        let pattern = at("pattern").parse().unwrap();
        Migrator::connect(&pattern).await.unwrap().migrate().await.unwrap();
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'pattern'";
        while self.client.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
        let mut places = Vec::new();
        for number in 0..count {
            let database = format!("place{number}");
            self.client.batch_execute(&format!("CREATE DATABASE {database} TEMPLATE pattern")).await.unwrap();
            let client = Arc::new(self.postgres.connect_in(&database).await);
            let (back, front) = (at(&database), format!("{}/{number}", self.front));
            places.push(Self { back, front, client, clock: ClockOffset::default(), ..self.clone() });
        }
        places
    }

    /// The same, with PostgreSQL reached through another address.
    pub(super) fn on(&self, back: &str) -> Self {
        Self { back: back.to_owned(), ..self.clone() }
    }

    /// The same, with another front.
    pub(super) fn behind(&self, front: &str) -> Self {
        Self { front: front.to_owned(), ..self.clone() }
    }

    /// What another process has; it waits for nothing but what it must, and not less on a busy machine.
    pub(super) async fn open(&self) -> TieredStore {
        let mut options = Options::default();
        (options.timeout, options.front_timeout, options.wait) = (PATIENCE, PATIENCE, PATIENCE);
        self.open_with(options).await
    }

    pub(super) async fn open_with(&self, mut options: Options) -> TieredStore {
        options.back.clock_offset = self.clock.clone();
        options.front.clock = Some(Arc::new(MovedClock(self.clock.clone())));
        let (back, front) = (self.back.parse().unwrap(), self.front.parse().unwrap());
        let store = TieredStore::open(&back, &front, options).unwrap();
        store.stand().await.unwrap();
        store
    }

    /// The servers' clock, moved on as the stores' is.
    pub(super) fn now(&self) -> Timestamp {
        MovedClock(self.clock.clone()).now()
    }

    pub(super) async fn flush(&self) {
        let mut connection = self.redis.lock().await.connect().await;
        redis::cmd("FLUSHALL").exec_async(&mut connection).await.unwrap();
    }

    /// How many records the front knows something of.
    pub(super) async fn entries(&self) -> usize {
        let mut connection = self.redis.lock().await.connect().await;
        redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
    }

    /// Whether somebody is asking PostgreSQL for the only record that the front knows something of.
    pub(super) async fn token(&self) -> bool {
        let mut connection = self.redis.lock().await.connect().await;
        let entries: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
        let [entry] = &entries[..] else { return false };
        let token: Option<Vec<u8>> =
            redis::cmd("HGET").arg(entry).arg("by").query_async(&mut connection).await.unwrap();
        token.is_some_and(|token| !token.is_empty())
    }

    pub(super) async fn sql(&self, statement: &str) {
        self.client.batch_execute(statement).await.unwrap();
    }

    /// How many rows PostgreSQL has answered to a verb's statements since they were last forgotten: one for each record.
    pub(super) async fn asked(&self, verb: &str) -> i64 {
        let sql = "SELECT coalesce(sum(rows), 0)::bigint FROM pg_stat_statements WHERE query LIKE $1";
        self.client.query_one(sql, &[&format!("%oncegate.{verb}%(%$%")]).await.unwrap().get(0)
    }

    pub(super) async fn forget_asked(&self) {
        self.client.execute("SELECT pg_stat_statements_reset()", &[]).await.unwrap();
    }
}

/// Polls until it is so.
pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) async fn acquire(store: &TieredStore, request: &ClaimRequest) -> Lease {
    match store.claim(request).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("the claim must be acquired, but: {other:?}"),
    }
}
