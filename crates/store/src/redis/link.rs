//! The connection: one to each server, shared by all callers, made anew when it is lost.
//!
//! A call may be sent again when its connection is lost, here and by the driver of a Cluster, whether or not it was
//! carried out: each script knows a call that comes twice.

use std::{collections::BTreeMap, fmt, time::Duration};

use oncegate_core::StoreError;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, ServerErrorKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::sync::Mutex;

use super::{address::Address, cluster::Cluster, error::to_store_error, options::Options, script::Call};

// === types ===

/// Connections to come, or that stand.
pub(crate) enum Link {
    Single(Box<Single>),
    Cluster(Box<Cluster>),
}

/// One server. The driver has a connection that is made anew by itself too, but one that was refused once, as for a
/// password that is being changed, stays refused there.
pub(crate) struct Single {
    client: Client,
    config: AsyncConnectionConfig,
    standing: Mutex<Standing>,
}

#[derive(Default)]
struct Standing {
    connection: Option<MultiplexedConnection>,
    /// How many there have been.
    number: u64,
}

/// What is asked in one piece.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    One(&'a Cmd),
    Several(&'a Pipeline),
}

/// How many replicas must have a write, and for how long they are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) replicas: u32,
    pub(super) timeout: Duration,
}

/// How many calls may wait to be written: more than callers at once.
const BUFFER_CALLS: usize = 4096;

/// Long enough for a distant server, short enough for callers to be told.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

// === impl Link ===

impl Link {
    /// Connects when it is first asked.
    pub(crate) fn new(address: &Address, options: &Options) -> Result<Self, RedisError> {
        #[cfg(feature = "redis-tls")]
        if address.is_encrypted() {
            provide_cryptography();
        }
        if address.is_cluster() {
            return Ok(Self::Cluster(Box::new(Cluster::new(address, options)?)));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(options.reply_timeout))
            .set_pipeline_buffer_size(BUFFER_CALLS);
        Ok(Self::Single(Box::new(Single { client: address.client()?, config, standing: Mutex::default() })))
    }

    /// Calls a script. A server that does not know it is sent it whole.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, StoreError> {
        let value = match self.ask(&call.by_digest()).await {
            Err(error) if is_unknown_script(&error) => self.ask(&call.by_text()).await,
            answered => answered,
        };
        value.map_err(to_store_error)
    }

    /// Calls a script, and waits until replicas have what it wrote. Answers how many have.
    pub(super) async fn call_and_wait(&self, call: &Call, wait: Wait) -> Result<(Value, u32), StoreError> {
        let answered = match self.ask_and_wait(call.by_digest(), wait).await {
            Err(error) if is_unknown_script(&error) => self.ask_and_wait(call.by_text(), wait).await,
            answered => answered,
        };
        answered.map_err(to_store_error)
    }

    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut values = self.answers(Question::One(command)).await?;
        Ok(values.pop().unwrap_or(Value::Nil))
    }

    /// Several, of one slot, in one piece.
    #[cfg(feature = "postgres")]
    pub(super) async fn ask_together(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        match commands.is_empty() {
            true => Ok(Vec::new()),
            false => self.answers(Question::Several(commands)).await,
        }
    }

    /// In one piece, since what is waited for is all that the server had written when this connection's last call
    /// ended, also by others: a call that only recognises what it did before waits too. A wait holds up the other
    /// calls of the connection: they are sent together when it ends.
    async fn ask_and_wait(&self, command: Cmd, wait: Wait) -> Result<(Value, u32), RedisError> {
        let timeout_millis = u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX);
        let mut both = Pipeline::new();
        both.add_command(command).cmd("WAIT").arg(wait.replicas).arg(timeout_millis);
        let mut values = self.answers(Question::Several(&both)).await?;
        let count = redis::from_redis_value(values.pop().unwrap_or(Value::Nil))?;
        Ok((values.pop().unwrap_or(Value::Nil), count))
    }

    async fn answers(&self, question: Question<'_>) -> Result<Vec<Value>, RedisError> {
        match self {
            Self::Single(single) => single.answers(question).await,
            Self::Cluster(cluster) => cluster.answers(question).await,
        }
    }

    /// Asks each server that can be written: its address, if there are several, and what it said.
    pub(super) async fn ask_each(&self, command: &Cmd) -> Result<BTreeMap<String, Value>, RedisError> {
        match self {
            Self::Single(_) => Ok(BTreeMap::from([(String::new(), self.ask(command).await?)])),
            Self::Cluster(cluster) => cluster.ask_each(command).await,
        }
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The driver takes the cryptography from the process and would panic if there was none.
#[cfg(feature = "redis-tls")]
fn provide_cryptography() {
    // An error means that the process has one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single",
            Self::Cluster(_) => "Cluster",
        })
    }
}

// === impl Single ===

impl Single {
    /// Asks, and once more on another connection where the first one turns out to be lost: it may have been for long.
    async fn answers(&self, question: Question<'_>) -> Result<Vec<Value>, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answered = question.put_to(&mut connection).await;
        let Err(error) = &answered else { return answered };
        if !leads_nowhere(error) {
            return answered;
        }
        self.give_up(number).await;
        if !error.is_connection_dropped() {
            return answered;
        }
        let (number, mut connection) = self.connection().await?;
        let answered = question.put_to(&mut connection).await;
        if answered.as_ref().is_err_and(leads_nowhere) {
            self.give_up(number).await;
        }
        answered
    }

    /// The connection that stands, or a new one; who comes while it is made waits for it.
    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        let mut standing = self.standing.lock().await;
        if let Some(connection) = &standing.connection {
            return Ok((standing.number, connection.clone()));
        }
        let connection = self.client.get_multiplexed_async_connection_with_config(&self.config).await?;
        standing.connection = Some(connection.clone());
        standing.number += 1;
        Ok((standing.number, connection))
    }

    /// Leaves a connection, unless somebody else has already made another.
    async fn give_up(&self, number: u64) {
        let mut standing = self.standing.lock().await;
        if standing.number == number {
            standing.connection = None;
        }
    }
}

/// Whether only another connection can help: this one is lost, does not answer, or is to a server that follows another
/// by now.
fn leads_nowhere(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly)
}

// === impl Question ===

impl Question<'_> {
    pub(super) async fn put_to<C: ConnectionLike + Send>(self, connection: &mut C) -> Result<Vec<Value>, RedisError> {
        match self {
            Self::One(command) => Ok(vec![connection.req_packed_command(command).await?.extract_error()?]),
            Self::Several(commands) => commands.query_async(connection).await,
        }
    }
}
