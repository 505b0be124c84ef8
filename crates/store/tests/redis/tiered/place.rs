//! A PostgreSQL and a Redis in front of it, and what tests ask of both.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use oncegate_core::{Claim, ClaimRequest, Clock, Lease, Store, SystemClock, Timestamp};
use oncegate_store::{
    postgres::{ClockOffset, Migrator},
    tiered::{Durability, Options, TieredStore},
};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::{postgres::Server as Postgres, server::Server as Redis};

/// Longer than anything takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than it takes until something is so that ever is.
const NEVER: Duration = Duration::from_secs(60);

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
    /// How far Redis's clock is ahead of PostgreSQL's.
    ahead: Duration,
    durability: Durability,
}

/// The clock of this machine, which is that of both servers, moved on.
#[derive(Debug)]
struct MovedClock(ClockOffset, Duration);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0.get()).after(self.1)
    }
}

impl Place {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With a Redis of these settings.
    pub(super) async fn start_with(settings: &[&str]) -> Self {
        let postgres = Postgres::start(&[FAST, COUNTING]).await;
        postgres.migrator().await.migrate().await.unwrap();
        let client = postgres.connect().await;
        client.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
        let redis = Redis::start(settings).await;
        let (back, front) = (postgres.address(), redis.address());
        let (postgres, redis) = (Arc::new(postgres), Arc::new(Mutex::new(redis)));
        let (client, clock, ahead) = (Arc::new(client), ClockOffset::default(), Duration::ZERO);
        Self { postgres, redis, back, front, client, clock, ahead, durability: Durability::Authoritative }
    }

    /// The same with an outbox.
    pub(super) fn with_outbox(self) -> Self {
        Self { durability: Durability::Outbox, ..self }
    }

    pub(super) fn wants_outbox(&self) -> bool {
        self.durability == Durability::Outbox
    }

    /// The same without records and under a clock of its own.
    pub(super) async fn emptied(&self) -> Self {
        let tables =
            "TRUNCATE oncegate.records, oncegate.responses, oncegate.audit, oncegate.stragglers, oncegate.sweep,
                               oncegate.graves, oncegate.front;
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

    /// Another database behind the same Redis.
    pub(super) async fn beside(&self) -> Self {
        let [beside] = <[Self; 1]>::try_from(self.divided(1).await).unwrap_or_else(|_| unreachable!("it is one"));
        Self { front: self.front.clone(), ..beside }
    }

    /// The same, with PostgreSQL reached through another address.
    pub(super) fn on(&self, back: &str) -> Self {
        Self { back: back.to_owned(), ..self.clone() }
    }

    /// The same, with another front.
    pub(super) fn behind(&self, front: &str) -> Self {
        Self { front: front.to_owned(), ..self.clone() }
    }

    /// The same, with a Redis whose clock is so far ahead.
    pub(super) fn ahead(&self, by: Duration) -> Self {
        Self { ahead: by, ..self.clone() }
    }

    /// What another process has; it waits for nothing but what it must, and not less on a busy machine.
    pub(super) async fn open(&self) -> TieredStore {
        let mut options = Options::default();
        (options.timeout, options.front_timeout, options.wait) = (PATIENCE, PATIENCE, PATIENCE);
        self.open_with(options).await
    }

    pub(super) async fn open_with(&self, mut options: Options) -> TieredStore {
        options.durability = self.durability;
        options.back.clock_offset = self.clock.clone();
        options.front.clock = Some(Arc::new(MovedClock(self.clock.clone(), self.ahead)));
        let (back, front) = (self.back.parse().unwrap(), self.front.parse().unwrap());
        let store = TieredStore::open(&back, &front, options).unwrap();
        store.stand().await.unwrap();
        if self.wants_outbox() {
            // Here each is closed soon after it was opened; that the next one is opened the later for it would take long.
            self.sql("UPDATE oncegate.front SET rest = '0'").await;
        }
        store
    }

    /// The servers' clock, moved on as the stores' is.
    pub(super) fn now(&self) -> Timestamp {
        MovedClock(self.clock.clone(), Duration::ZERO).now()
    }

    pub(super) async fn flush(&self) {
        self.tell_redis(&["FLUSHALL"]).await;
    }

    pub(super) async fn tell_redis(&self, words: &[&str]) {
        let mut connection = self.redis.lock().await.connect().await;
        redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
    }

    /// How many records the front knows something of.
    pub(super) async fn entries(&self) -> usize {
        let mut connection = self.redis.lock().await.connect().await;
        redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
    }

    /// Whether somebody is asking PostgreSQL for a record.
    pub(super) async fn has_token(&self) -> bool {
        let mut connection = self.redis.lock().await.connect().await;
        let entries: Vec<String> = redis::cmd("KEYS").arg("*:front:*").query_async(&mut connection).await.unwrap();
        for entry in entries {
            let mut token = redis::cmd("HGET");
            let token: Option<Vec<u8>> = token.arg(entry).arg("by").query_async(&mut connection).await.unwrap();
            if token.is_some_and(|token| !token.is_empty()) {
                return true;
            }
        }
        false
    }

    /// The same after PostgreSQL was restarted.
    pub(super) async fn reconnected(&self) -> Self {
        Self { client: Arc::new(self.postgres.connect().await), ..self.clone() }
    }

    /// How many rows a table has.
    pub(super) async fn count(&self, table: &str) -> i64 {
        self.client.query_one(&format!("SELECT count(*) FROM oncegate.{table}"), &[]).await.unwrap().get(0)
    }

    /// How many records there are, that of this key not counted.
    pub(super) async fn records_but_for(&self, key: &str) -> i64 {
        let sql = "SELECT count(*) FROM oncegate.records WHERE key <> $1";
        self.client.query_one(sql, &[&key]).await.unwrap().get(0)
    }

    /// What stands in outboxes now, each with its stream.
    pub(super) async fn streams(&self) -> Vec<(String, Vec<Vec<u8>>)> {
        let mut connection = self.redis.lock().await.connect().await;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*:outbox:*").query_async(&mut connection).await.unwrap();
        let mut entries = Vec::new();
        for key in keys {
            let mut range = redis::cmd("XRANGE");
            range.arg(&key).arg("-").arg("+");
            let found: Vec<(String, Vec<Vec<u8>>)> = range.query_async(&mut connection).await.unwrap();
            entries.extend(found.into_iter().map(|(_, fields)| (key.clone(), fields)));
        }
        entries
    }

    /// Leaves them in the outbox of a gateway that is dead.
    pub(super) async fn leave(&self, streams: &[(String, Vec<Vec<u8>>)], gateway: &str) {
        let mut connection = self.redis.lock().await.connect().await;
        for (key, fields) in streams {
            let (tag, _) = key.split_once(":outbox:").unwrap();
            let mut add = redis::cmd("XADD");
            add.arg(format!("{tag}:outbox:{gateway}")).arg("*").arg(fields);
            add.exec_async(&mut connection).await.unwrap();
        }
        let [names] = &Self::gateways(&mut connection).await[..] else { panic!("there is one database") };
        redis::cmd("SADD").arg(names).arg(gateway).exec_async(&mut connection).await.unwrap();
    }

    /// How many gateways have an outbox.
    pub(super) async fn outboxes(&self) -> usize {
        let mut connection = self.redis.lock().await.connect().await;
        let mut count = 0;
        for names in Self::gateways(&mut connection).await {
            count += redis::cmd("SCARD").arg(names).query_async::<usize>(&mut connection).await.unwrap();
        }
        count
    }

    /// The keys of their names, one for each database.
    async fn gateways(connection: &mut redis::aio::MultiplexedConnection) -> Vec<String> {
        redis::cmd("KEYS").arg("oncegate:gateways:*").query_async(connection).await.unwrap()
    }

    pub(super) async fn sql(&self, statement: &str) {
        self.client.batch_execute(statement).await.unwrap();
    }

    /// How many rows a statement has changed.
    pub(super) async fn changed(&self, statement: &str) -> u64 {
        self.client.execute(statement, &[]).await.unwrap()
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
    let deadline = Instant::now() + NEVER;
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
