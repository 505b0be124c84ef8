//! The front of a tiered store: what PostgreSQL has confirmed, kept where it is answered in one round trip.
//!
//! One record has one hash. Nothing here decides whether a key is new: a front that is lost, slow or emptied is asked
//! in vain, and PostgreSQL is asked instead.

mod clock;
mod entry;
mod outbox;
mod sent;
mod streams;

use std::{
    fmt::Write as _,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use oncegate_core::{
    Claim, ClaimRequest, ErrorKind, Fence, Owner, RecordDigest, StoreError, StoredResponse, Timestamp,
};
use redis::Value;
use sha2::{Digest as _, Sha256};

use self::clock::Clocks;
pub(crate) use self::{
    entry::Entry,
    outbox::{Finish, Take, Taken},
    sent::Sent,
    streams::Left,
};
pub(crate) use super::layout::Tag;
use super::{
    Options,
    address::Address,
    error::to_store_error,
    link::Link,
    reply::{Reply, unexpected},
    script::{BURY, Call, DISTRUST, FILL, FRONT_COMPLETE, LEAVE, LOOK, Script},
};

// === types ===

/// One Redis, or a Cluster, in front of a store.
#[derive(Debug)]
pub(crate) struct Front {
    link: Link,
    options: Options,
    clocks: Clocks,
    /// Before which it stands; several may share a Redis, and none may take the other's for its own.
    database: RwLock<Arc<str>>,
}

/// What the front answers to a claim.
#[derive(Debug)]
pub(crate) enum Looked {
    /// What PostgreSQL has confirmed.
    Answer(Claim),
    /// Somebody is asking PostgreSQL just now, at most for so long.
    Held(Duration),
    /// Nothing is known, and the token was left.
    Placed {
        /// A claim was taken here, and PostgreSQL may not have it yet.
        was_taken: bool,
    },
    /// Nothing is known, and no token was to be left.
    Absent,
}

/// Who looks, and under what.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) record: RecordDigest,
    /// What was confirmed under another one is absent.
    pub(crate) generation: Arc<str>,
    /// Of this look, and no other.
    pub(crate) token: Owner,
}

/// A response that PostgreSQL has stored.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) record: RecordDigest,
    pub(crate) fence: Fence,
    /// When PostgreSQL was asked, by [`Front::clock`].
    pub(crate) asked: i64,
    pub(crate) completed_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) expires_in: Duration,
    pub(crate) response: &'a StoredResponse,
}

/// For how long what is in flight is believed: what was written in PostgreSQL and could not be told here, or was written
/// by others than us, is seen after it.
pub(crate) const TRUST: Duration = Duration::from_secs(5);

/// For how long a record that is being deleted is kept out.
const BURIED: Duration = Duration::from_secs(60);

// === impl Front ===

impl Front {
    pub(crate) fn open(address: &Address, options: Options) -> Result<Self, StoreError> {
        let link = Link::new(address, &options).map_err(|error| {
            StoreError::new(ErrorKind::Unavailable, "the address of the front cannot be used").with_source(error)
        })?;
        Ok(Self { link, options, clocks: Clocks::new(), database: RwLock::new(Arc::from("")) })
    }

    /// From now on it stands before this database.
    pub(crate) fn stand_before(&self, database: &str) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = Arc::from(database);
    }

    fn database(&self) -> Arc<str> {
        Arc::clone(&self.database.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is known of the record; where nothing is, leaves the token for `place`, unless another one stands there.
    pub(crate) async fn look(
        &self,
        look: &Look,
        request: &ClaimRequest,
        place: Option<Duration>,
    ) -> Result<Looked, StoreError> {
        let call = self
            .call(&LOOK, look.record, &look.generation)
            .with(&*entry::name(request))
            .with(request.fingerprint.as_bytes())
            .with(request.owner.as_ref().map_or(&[][..], |owner| Owner::as_bytes(owner)))
            .with(&look.token.as_bytes()[..])
            .with(place.unwrap_or_default());
        let mut reply = self.ask(look.record, &call).await?;
        match &*reply.text()? {
            "held" => Ok(Looked::Held(reply.duration()?)),
            "placed" => Ok(Looked::Placed { was_taken: reply.text()? == "1" }),
            "absent" => Ok(Looked::Absent),
            word => entry::answer(word, &mut reply).map(Looked::Answer),
        }
    }

    /// Keeps what PostgreSQL answered, if the token still stands.
    pub(crate) async fn fill(&self, look: &Look, fence: Fence, entry: &Entry<'_>) -> Result<(), StoreError> {
        let call = self
            .call(&FILL, look.record, &look.generation)
            .with(TRUST)
            .with(&look.token.as_bytes()[..])
            .with(fence.get());
        self.ask(look.record, &entry.add_to(call)).await.map(drop)
    }

    /// Takes the token away, if it still stands.
    pub(crate) async fn leave(&self, look: &Look) -> Result<(), StoreError> {
        let call = self.call(&LEAVE, look.record, &look.generation).with(&look.token.as_bytes()[..]);
        self.ask(look.record, &call).await.map(drop)
    }

    /// Keeps a response with what is known of its lease.
    pub(crate) async fn complete(&self, generation: &str, stored: Stored<'_>) -> Result<(), StoreError> {
        let call = self
            .call(&FRONT_COMPLETE, stored.record, generation)
            .with(stored.fence.get())
            .with(stored.asked)
            .with(stored.completed_at.as_micros())
            .with(stored.expires_at.as_micros())
            .with(stored.expires_in);
        let call = super::write::with_response(call, stored.response);
        self.ask(stored.record, &call).await.map(drop)
    }

    /// Has PostgreSQL asked next, unless the record is completed there, as far as is known under this fence.
    pub(crate) async fn distrust(
        &self,
        generation: &str,
        record: RecordDigest,
        fence: Option<Fence>,
    ) -> Result<(), StoreError> {
        let call = self.call(&DISTRUST, record, generation);
        let call = match fence {
            Some(fence) => call.with(fence.get()),
            None => call.with(""),
        };
        self.ask(record, &call).await.map(drop)
    }

    /// Forgets a record, and keeps what was known of it until then out for a while.
    pub(crate) async fn bury(&self, generation: &str, record: RecordDigest, fence: Fence) -> Result<(), StoreError> {
        let call = self.call(&BURY, record, generation).with(fence.get()).with(BURIED);
        self.ask(record, &call).await.map(drop)
    }

    /// A moment that is not later than now on the clock of the server that has this record; `None` before it was asked.
    pub(crate) fn clock(&self, record: RecordDigest) -> Option<i64> {
        // A test moves its clock on, which nobody would notice here.
        self.options.now().or_else(|| self.clocks.now(Tag::of(record)))
    }

    /// A generation of this front: another one after a restart, a failover, or with another origin. And whether a server
    /// of it may evict what it holds.
    pub(crate) async fn generation(&self, origin: &str) -> Result<(String, bool), StoreError> {
        let mut command = redis::cmd("INFO");
        command.arg("replication").arg("memory");
        let servers = self.link.ask_each(&command).await.map_err(to_store_error)?;
        let mut digest = Sha256::new_with_prefix(origin);
        let mut can_evict = false;
        for (address, info) in servers {
            let info: String = redis::from_redis_value(info).map_err(|_| unexpected("info"))?;
            let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            digest.update(format!("\n{address} {}", field("master_replid:")));
            can_evict |= field("maxmemory_policy:") != "noeviction";
        }
        let mut text = String::new();
        for byte in &digest.finalize()[..8] {
            write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        }
        Ok((text, can_evict))
    }

    fn call(&self, script: &'static Script, record: RecordDigest, generation: &str) -> Call {
        Call::new(script, vec![Tag::of(record).front(&self.database(), record)], self.options.now()).with(generation)
    }

    /// Asks, and notes what the server's clock showed.
    async fn ask(&self, record: RecordDigest, call: &Call) -> Result<Reply, StoreError> {
        let value: Value = self.link.call(call).await?;
        let mut reply = Reply::of(value, call.script.verb)?;
        self.clocks.note(Tag::of(record), reply.number()?, Instant::now());
        Ok(reply)
    }
}
