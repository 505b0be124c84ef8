//! A Cluster: the driver finds its nodes again, and is left when it finds none of them.

use std::{
    collections::BTreeMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{
    Cmd, RedisError, Value,
    cluster::{ClusterClient, ClusterClientBuilder, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo},
};

use super::{
    address::Address,
    link::{CONNECT_TIMEOUT, Question},
    options::Options,
};

// === types ===

/// The driver, and for how long nothing was heard of it.
///
/// It may fall silent for ever: after a failover it can end up waiting for itself (seen with 1.8.1), and a connection that
/// a firewall has forgotten it asks again and again. Another driver begins with connections of its own.
pub(crate) struct Cluster {
    client: ClusterClient,
    standing: RwLock<Standing>,
    /// Whether the last call was not answered, so that others need not ask for the lock to say that theirs was.
    is_silent: AtomicBool,
}

struct Standing {
    connection: ClusterConnection,
    /// How many there have been.
    number: u64,
    /// Since when no call was answered.
    silent_since: Option<Instant>,
}

/// A call that nobody has heard of; one that is given up never was.
struct Asked<'a> {
    cluster: &'a Cluster,
    number: u64,
    is_silent: bool,
}

/// For how long the driver may be silent: some tries of its own, and little of the time for which callers go without it.
const SILENCE_MAX: Duration = Duration::from_secs(2);

// === impl Cluster ===

impl Cluster {
    /// Connects when it is first asked.
    pub(super) fn new(address: &Address, options: &Options) -> Result<Self, RedisError> {
        // Waits of at most 0.2 s between the tries leave time for several within what callers give a store.
        let builder = ClusterClientBuilder::new(address.nodes())
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(options.reply_timeout)
            .retries(3)
            .min_retry_wait(20)
            .max_retry_wait(200);
        #[cfg(feature = "redis-tls")]
        let builder = match address.certificates() {
            Some(certificates) => builder.certs(certificates),
            None => builder,
        };
        let client = builder.build()?;
        let standing = RwLock::new(Standing::first(&client));
        Ok(Self { client, standing, is_silent: AtomicBool::default() })
    }

    pub(super) async fn answers(&self, question: Question<'_>) -> Result<Vec<Value>, RedisError> {
        let (asked, mut connection) = self.ask();
        asked.hear(question.put_to(&mut connection).await)
    }

    /// Asks each master: its address, and what it said.
    pub(super) async fn ask_each(&self, command: &Cmd) -> Result<BTreeMap<String, Value>, RedisError> {
        let (asked, mut connection) = self.ask();
        let routing = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answered = asked.hear(connection.route_command(command.clone(), routing).await)?;
        Ok(redis::from_redis_value(answered.extract_error()?)?)
    }

    fn ask(&self) -> (Asked<'_>, ClusterConnection) {
        let standing = self.standing.read().unwrap_or_else(PoisonError::into_inner);
        (Asked { cluster: self, number: standing.number, is_silent: true }, standing.connection.clone())
    }

    /// Notes whether a call was answered, and leaves a driver that has been silent for too long.
    fn note(&self, number: u64, is_silent: bool) {
        if !is_silent && !self.is_silent.load(Ordering::Relaxed) {
            return;
        }
        let mut standing = self.standing.write().unwrap_or_else(PoisonError::into_inner);
        if standing.number != number {
            return;
        }
        self.is_silent.store(is_silent, Ordering::Relaxed);
        if !is_silent {
            standing.silent_since = None;
        } else if standing.silent_since.get_or_insert_with(Instant::now).elapsed() > SILENCE_MAX {
            tracing::warn!("nothing is heard of the Redis Cluster: it is connected to anew");
            self.is_silent.store(false, Ordering::Relaxed);
            *standing = Standing { number: number + 1, ..Standing::first(&self.client) };
        }
    }
}

// === impl Asked ===

impl Asked<'_> {
    /// An error of the Cluster is an answer too.
    fn hear<T>(mut self, answered: Result<T, RedisError>) -> Result<T, RedisError> {
        let is_unheard = |error: &RedisError| error.is_timeout() || error.is_connection_dropped();
        self.is_silent = answered.as_ref().is_err_and(is_unheard);
        answered
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.cluster.note(self.number, self.is_silent);
    }
}

// === impl Standing ===

impl Standing {
    fn first(client: &ClusterClient) -> Self {
        let connection = client.get_pending_async_connection_with_config(ClusterConfig::new());
        Self { connection, number: 1, silent_since: None }
    }
}
