//! A Cluster: the driver finds its nodes again, and is left when nothing is heard of any of them.

use std::{
    collections::BTreeMap,
    sync::{
        PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    Cmd, RedisError, Value,
    cluster::{ClusterClient, ClusterClientBuilder, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo},
};
use tokio::time::Instant;

use super::{
    address::{Address, tcp_settings},
    link::{CONNECT_TIMEOUT, Question},
    options::Options,
};

// === types ===

/// The driver, and how long nothing was heard of it.
///
/// It may fall silent for ever: after a failover it can end up waiting for itself (seen with 1.8.1, under tokio 1.54), and
/// connections that a firewall has forgotten it asks again and again. Another driver begins with connections of its own.
pub(crate) struct Cluster {
    client: ClusterClient,
    standing: RwLock<Standing>,
    /// Whether the last call was not answered, or none was yet of this driver: others need not ask for the lock to say that
    /// theirs was answered.
    is_silent: AtomicBool,
}

struct Standing {
    connection: ClusterConnection,
    /// How many there have been.
    number: u64,
    silence: Option<Silence>,
    /// For how long it may be silent.
    patience: Duration,
}

/// Calls that were not answered, one after the other.
struct Silence {
    since: Instant,
    calls: u32,
}

/// A call that nobody has heard of; one that is given up never was.
struct Asked<'a> {
    cluster: &'a Cluster,
    number: u64,
    is_silent: bool,
}

/// For how long a driver that has answered may be silent: some tries of its own, and little of the time for which callers go
/// without it. One that has answered nobody yet has twice as long as the one before, since where a node hangs it waits for
/// that before it answers.
const PATIENCE_MIN: Duration = CONNECT_TIMEOUT;
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How many calls it may leave unanswered: some are given up by who made them.
const CALLS_MAX: u32 = 4;

// === impl Cluster ===

impl Cluster {
    /// Connects when it is first asked.
    pub(super) fn new(address: &Address, options: &Options) -> Result<Self, RedisError> {
        // Waits of at most 0.2 s between the tries leave time for several within what callers give a store.
        let builder = ClusterClientBuilder::new(address.nodes())
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(options.reply_timeout)
            .tcp_settings(tcp_settings())
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
        Ok(Self { client, standing, is_silent: AtomicBool::new(true) })
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
        if self.is_silent.load(Ordering::Relaxed) {
            self.leave_silent();
        }
        let standing = self.standing.read().unwrap_or_else(PoisonError::into_inner);
        (Asked { cluster: self, number: standing.number, is_silent: true }, standing.connection.clone())
    }

    /// Leaves a driver that has been silent for too long.
    fn leave_silent(&self) {
        let mut standing = self.change();
        let Standing { number, patience, .. } = *standing;
        let is_dead = |silence: &Silence| silence.calls >= CALLS_MAX && silence.since.elapsed() > patience;
        if standing.silence.as_ref().is_some_and(is_dead) {
            tracing::warn!("nothing is heard of any node of the Redis Cluster: it is connected to anew");
            let patience = (2 * patience).min(PATIENCE_MAX);
            *standing = Standing { number: number + 1, patience, ..Standing::first(&self.client) };
        }
    }

    /// Notes whether a call was answered.
    fn note(&self, number: u64, is_silent: bool) {
        if !is_silent && !self.is_silent.load(Ordering::Relaxed) {
            return;
        }
        let mut standing = self.change();
        if standing.number != number {
            return;
        }
        self.is_silent.store(is_silent, Ordering::Relaxed);
        if is_silent {
            standing.silence.get_or_insert_with(|| Silence { since: Instant::now(), calls: 0 }).calls += 1;
        } else {
            (standing.silence, standing.patience) = (None, PATIENCE_MIN);
        }
    }

    fn change(&self) -> RwLockWriteGuard<'_, Standing> {
        // Whoever held the lock could only replace what is in it.
        self.standing.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Asked ===

impl Asked<'_> {
    /// An error of the Cluster is an answer too, and so is that the driver knows no node: it looks for them then.
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
        Self { connection, number: 1, silence: None, patience: PATIENCE_MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks so often in vain; which driver was asked last.
    fn ask_in_vain(cluster: &Cluster, calls: u32) -> u64 {
        (0..calls).map(|_| cluster.ask().0.number).last().unwrap()
    }

    #[tokio::test]
    async fn connections_to_a_cluster_are_made_as_those_to_a_single_server() {
        let cluster = Cluster::new(&"redis-cluster://127.0.0.1:1".parse().unwrap(), &Options::default()).unwrap();
        // The driver has no other way to say it. What the addresses of the nodes say it does not use.
        let (made, wanted) = (format!("{:?}", cluster.client), format!("{:?}", tcp_settings()));
        let (_, made) = made.split_once("cluster_params").unwrap();
        assert!(made.contains(&wanted), "{wanted} is not in {made}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_never_answers_is_left_for_one_that_has_longer() {
        let cluster = Cluster::new(&"redis-cluster://127.0.0.1:1".parse().unwrap(), &Options::default()).unwrap();
        for (number, patience) in [(1, PATIENCE_MIN), (2, 2 * PATIENCE_MIN), (3, 4 * PATIENCE_MIN)] {
            assert_eq!(ask_in_vain(&cluster, CALLS_MAX), number);
            tokio::time::advance(patience).await;
            assert_eq!(ask_in_vain(&cluster, 1), number, "it has so long");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let (asked, _connection) = cluster.ask();
        assert_eq!(asked.number, 4);
        asked.hear(Ok(())).unwrap();
        assert_eq!(ask_in_vain(&cluster, CALLS_MAX), 4);
        tokio::time::advance(PATIENCE_MIN + Duration::from_millis(1)).await;
        assert_eq!(ask_in_vain(&cluster, 1), 5, "one that has answered has no longer than the first");
    }

    #[tokio::test(start_paused = true)]
    async fn few_calls_that_are_given_up_say_nothing() {
        let cluster = Cluster::new(&"redis-cluster://127.0.0.1:1".parse().unwrap(), &Options::default()).unwrap();
        assert_eq!(ask_in_vain(&cluster, CALLS_MAX - 1), 1);
        tokio::time::advance(PATIENCE_MAX).await;
        assert_eq!(ask_in_vain(&cluster, 1), 1);
    }
}
