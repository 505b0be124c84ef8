//! Records in Redis 7.0 or newer, one server or a Cluster: for effects that may happen twice.
//!
//! Redis alone forgets: a restart or a failover can lose what it acknowledged, and then "new" and "lost" look the
//! same. This store notices both and refuses claims until every lease of before has ended ([`Options::cold`]), which
//! protects executions that still run and not the responses that are lost. A repeat of those executes again, so it is
//! not for payments.
//!
//! One verb is one Lua script, which Redis carries out alone and whole; one record is one hash. What is known of all
//! records of a *tag* (the first byte of their digests) has keys with the same hash tag, so that a script may touch it
//! in a Cluster too.
//!
//! ```no_run
//! # async fn claim(request: &oncegate_core::ClaimRequest) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::Store;
//! use oncegate_store::redis::{Options, RedisStore};
//!
//! let store = RedisStore::open(&"redis://localhost".parse()?, Options::default())?;
//! store.check().await?;
//! let claim = store.claim(request).await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod caller;
mod claim;
mod cluster;
mod error;
#[cfg(feature = "postgres")]
pub(crate) mod front;
mod layout;
mod link;
mod operator;
mod options;
mod read;
mod reply;
mod row;
mod script;
mod server;
mod write;
pub mod yardstick;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, ErrorKind, Filter, Lease, Note, Owner, Reaped, Record,
    RecordDigest, Seen, Store, StoreError, StoredResponse, Written,
};
use redis::Value;

pub(crate) use self::link::Link;
pub use self::{
    address::{Address, AddressError},
    options::Options,
    server::Server,
};
use self::{caller::Caller, link::Wait, reply::written, script::Call};

// === types ===

/// Records in Redis.
///
/// # Errors of its verbs
/// A server whose memory is full is [`Full`](ErrorKind::Full): nothing was applied. One that cannot be reached, does
/// not answer or refuses is [`Unavailable`](ErrorKind::Unavailable), and so is a claim while Redis is *cold*, one on
/// servers that may evict records, and a write that too few replicas acknowledged: that one stands all the same, and
/// is recognised when it is sent again.
///
/// # Cancellation
/// A verb whose future is dropped may still be carried out. A claim may even come after its own withdrawal; it is
/// refused then.
#[derive(Debug)]
pub struct RedisStore {
    link: Link,
    caller: Caller,
    options: Options,
    /// Why no claim is taken, as far as the servers' settings are the reason.
    fault: Mutex<Option<String>>,
}

// === impl RedisStore ===

impl RedisStore {
    /// A store at this address. It connects when it is first asked.
    ///
    /// The driver takes the cryptography of encrypted connections from the process: for such an address aws-lc is
    /// installed as its default, unless there is one.
    ///
    /// # Errors
    /// When the address names authorities that cannot be read.
    ///
    /// # Panics
    /// For a Cluster outside a tokio runtime.
    pub fn open(address: &Address, options: Options) -> Result<Self, StoreError> {
        let link = Link::new(address, &options).map_err(|error| {
            StoreError::new(ErrorKind::Unavailable, "the address of Redis cannot be used").with_source(error)
        })?;
        Ok(Self { link, caller: Caller::new(), options, fault: Mutex::default() })
    }

    async fn ask(&self, call: &Call) -> Result<Value, StoreError> {
        self.link.call(call).await
    }

    /// Asks for what must be on replicas too, and says whether what was written is.
    async fn ask_for_good(&self, call: &Call) -> Result<(Value, Result<(), StoreError>), StoreError> {
        let Options { wait_replicas: replicas, wait_timeout: timeout, .. } = self.options;
        if replicas == 0 {
            return Ok((self.ask(call).await?, Ok(())));
        }
        let (value, count) = self.link.call_and_wait(call, Wait { replicas, timeout }).await?;
        let text = format!("only {count} of {replicas} replicas had the write within {timeout:?} (wait_replicas)");
        let enough = if count < replicas { Err(StoreError::new(ErrorKind::Unavailable, text)) } else { Ok(()) };
        Ok((value, enough))
    }

    async fn write(&self, call: Call) -> Result<Written, StoreError> {
        written(&self.ask(&call).await?, call.script.verb)
    }

    fn refuse(&self, fault: Option<String>) {
        // Whoever held the lock could only replace the text.
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn accept(&self) -> Result<(), StoreError> {
        match &*self.fault.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(text) => Err(StoreError::new(ErrorKind::Unavailable, text)),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.accept()?;
        let call = claim::call(request, &self.caller.next(), &self.options);
        let (value, is_safe) = self.ask_for_good(&call).await?;
        match claim::answer(request, value)? {
            Claim::Acquired(lease) => is_safe.map(|()| Claim::Acquired(lease)),
            // Nothing was written, or nothing that somebody executes for.
            other => Ok(other),
        }
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.write(write::extend(lease, length, &self.caller.next(), &self.options)).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        let call = write::complete(lease, response, &self.caller.next(), &self.options);
        let (value, is_safe) = self.ask_for_good(&call).await?;
        match written(&value, call.script.verb)? {
            Written::Done => is_safe.map(|()| Written::Done),
            Written::Stale => Ok(Written::Stale),
        }
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.write(write::doubt(lease, reason, &self.caller.next(), &self.options)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.write(write::release(lease, &self.caller.next(), &self.options)).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        self.write(write::withdraw(record, owner, &self.caller.next(), &self.options)).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        self.read(record).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.oldest(filter).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.write(operator::resolve(seen, response, note, &self.caller.next(), &self.options)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.write(operator::purge(seen, note, &self.caller.next(), &self.options)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.entries(rows).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        self.sweep(rows).await
    }

    /// Also looks at the servers' settings, and refuses claims from then on if one may evict records.
    async fn census(&self) -> Result<Census, StoreError> {
        self.check().await?;
        self.count().await
    }
}
