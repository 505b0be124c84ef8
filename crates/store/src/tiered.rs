//! Redis in front of PostgreSQL: repeats are answered by the front, and PostgreSQL decides.
//!
//! The front answers what PostgreSQL has confirmed: completed records for as long as they live, and for a few seconds what
//! is in flight. It never decides that a key is new. Where it says nothing, one claim at a time asks PostgreSQL, the
//! others wait for what that is told. So a front that is emptied, slow, out of reach or set back to an earlier state costs
//! time and nothing else, and while PostgreSQL is out of reach the front still answers what it knows.
//!
//! What is written in PostgreSQL is told to the front before a verb ends. Where that fails, what is in flight is believed
//! for [five seconds](TieredStore#staleness), and a purge makes all void that the front holds.
//!
//! ```no_run
//! # async fn claim(request: &oncegate_core::ClaimRequest) -> Result<(), Box<dyn std::error::Error>> {
//! use oncegate_core::Store;
//! use oncegate_store::tiered::{Options, TieredStore};
//!
//! let (back, front) = ("postgres://app@localhost/shop".parse()?, "redis://localhost".parse()?);
//! let store = TieredStore::open(&back, &front, Options::default())?;
//! store.stand().await?;
//! let claim = store.claim(request).await?;
//! # Ok(())
//! # }
//! ```

mod breaker;
mod claim;
mod generation;
mod mode;
mod options;
mod outbox;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, ErrorKind, Fence, Filter, Lease, Note, Owner, Reaped, Record,
    RecordDigest, Seen, StateName, Store, StoreError, StoredResponse, Suspicion, Written,
};
use tokio::time::Instant;

pub use self::options::{Durability, Options};
use self::{
    breaker::Breaker,
    generation::Generation,
    mode::Mode,
    outbox::{Outbox, drain, rescue, settle::Closing, take},
};
use crate::{
    observer::Unobserved,
    postgres::{self, FrontRegister, PostgresStore, Wanted},
    redis::{
        self,
        front::{Front, Stored},
    },
};

// === types ===

/// Records in PostgreSQL, with Redis in front.
///
/// # Errors of its verbs
/// Those of PostgreSQL. A front that fails is none: PostgreSQL is asked. Where PostgreSQL cannot be reached, a claim of a
/// key that the front knows is answered, and another one is [`Unavailable`](ErrorKind::Unavailable) within
/// [`Options::timeout`].
///
/// # Staleness
/// What is in flight according to the front may have ended elsewhere at most five seconds ago, where the front could not
/// be told or an application ended it by SQL. What is completed according to the front is, unless it was purged where the
/// front could not be told: then no more than until the gateways have looked again, each second.
///
/// # Cancellation
/// As [`PostgresStore`]; a purge goes on.
#[derive(Debug)]
pub struct TieredStore(Arc<Tiers>);

/// What the store and its background task share.
#[derive(Debug)]
struct Tiers {
    front: Front,
    /// Where the front is, without a password.
    front_address: String,
    back: PostgresStore,
    register: FrontRegister,
    generation: Generation,
    mode: Mode,
    outbox: Arc<Outbox>,
    /// It claims, so it has a say in the mode, and an outbox.
    is_gateway: AtomicBool,
    front_breaker: Breaker,
    back_breaker: Breaker,
    options: Options,
}

// === impl TieredStore ===

impl TieredStore {
    /// A store with these two. It connects when it is first asked; the schema must be there by then.
    ///
    /// # Errors
    /// When the address of the front names authorities that cannot be read.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(back: &postgres::Address, front: &redis::Address, options: Options) -> Result<Self, StoreError> {
        let mut front_options = options.front.clone();
        front_options.reply_timeout = options.front_timeout;
        let mut register_options = options.back.clone();
        register_options.reply_timeout = options.back.reply_timeout.min(generation::REPLY_TIMEOUT);
        let tiers = Arc::new(Tiers {
            front: Front::open(front, front_options)?,
            front_address: front.to_string(),
            back: PostgresStore::open(back, options.back.clone()),
            register: FrontRegister::new(back, &register_options),
            generation: Generation::default(),
            mode: Mode::default(),
            outbox: Arc::new(Outbox::new(Arc::clone(&options.back.observer), options.outbox_limit)),
            is_gateway: AtomicBool::new(false),
            front_breaker: Breaker::new("the front", |_| true, Arc::clone(&options.back.observer)),
            // What is reported is the front's.
            back_breaker: Breaker::new("PostgreSQL", is_unavailable, Arc::new(Unobserved)),
            options,
        });
        generation::watch(&tiers);
        drain::start(&tiers);
        drain::watch(&tiers);
        rescue::start(&tiers);
        Ok(Self(tiers))
    }

    /// Has PostgreSQL remember this front, and begins to use it if it can be reached; else it is used once it can be.
    ///
    /// # Errors
    /// When PostgreSQL cannot be asked. Cancelled: the front may be remembered.
    pub async fn stand(&self) -> Result<(), StoreError> {
        let Self(tiers) = self;
        let wanted = Wanted { outbox: tiers.options.durability == Durability::Outbox, quiet: tiers.options.quiet() };
        tiers.register.remember(&tiers.front_address, wanted).await?;
        tiers.is_gateway.store(true, Ordering::Relaxed);
        generation::look(tiers).await
    }

    /// Begins to use the front, if PostgreSQL remembers one and it can be reached.
    ///
    /// # Errors
    /// When PostgreSQL cannot be asked. Cancelled: nothing happens.
    pub async fn look(&self) -> Result<(), StoreError> {
        generation::look(&self.0).await
    }

    /// The generation whose entries count, as it was last seen; `None` while the front is not used.
    #[must_use]
    pub fn generation(&self) -> Option<Arc<str>> {
        self.0.generation.get()
    }

    /// Whether an outbox is open, as it was last seen: then the front acknowledges what PostgreSQL has a moment later.
    #[must_use]
    pub fn has_outbox(&self) -> bool {
        self.0.mode.is_open()
    }
}

#[async_trait]
impl Store for TieredStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        claim::claim(&self.0, request).await
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        self.0.settle_ours(lease.record).await?;
        let written = self.0.back.extend(lease, length).await?;
        // What is left of the lease is another now.
        self.0.distrust(lease.record, Some(lease.fence)).await;
        Ok(written)
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        self.0.complete(lease, response).await
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        self.0.settle_ours(lease.record).await?;
        let written = self.0.back.doubt(lease, reason).await?;
        self.0.distrust(lease.record, Some(lease.fence)).await;
        Ok(written)
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        self.0.settle_ours(lease.record).await?;
        let written = self.0.back.release(lease).await?;
        self.0.distrust(lease.record, Some(lease.fence)).await;
        Ok(written)
    }

    /// Once an outbox was open it is also unavailable where PostgreSQL does not have the claim and the front cannot be asked:
    /// the claim may stand there.
    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        let settled = self.0.settle(record, Closing::Yes).await?;
        let written = self.0.back.withdraw(record, owner).await?;
        self.0.distrust(record, None).await;
        if written == Written::Stale {
            settled?;
        }
        Ok(written)
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        drop(self.0.settle(record, Closing::No).await?);
        let found = self.0.back.get(record).await?;
        // Whoever was told this must not hear from the front what was before it.
        self.0.distrust(record, found.as_ref().map(|(record, _)| record.fence)).await;
        Ok(found)
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.0.back.list(filter).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        self.0.settle_ours(seen.record).await?;
        let written = self.0.back.resolve(seen, response, note).await?;
        self.0.distrust(seen.record, Some(seen.fence)).await;
        Ok(written)
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        let (tiers, note) = (Arc::clone(&self.0), note.clone());
        // To its end, whoever asked: half of it would leave a front that still replays.
        let purging = tokio::spawn(async move { tiers.purge(seen, &note).await });
        purging.await.unwrap_or_else(|_| Err(StoreError::new(ErrorKind::Unavailable, "the purge was interrupted")))
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.0.back.audit(rows).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        if self.0.mode.was_ever_open()
            && let Err(error) = self.0.register.level_graves(rows).await
        {
            tracing::debug!(error = &error as &dyn std::error::Error, "graves could not be levelled");
        }
        self.0.back.reap(rows).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.0.back.census().await
    }

    async fn drained(&self) {
        self.0.outbox.drained().await;
    }

    async fn suspect(&self, found: Vec<Suspicion>, window: Duration) -> Result<Vec<Suspicion>, StoreError> {
        self.0.back.suspect(found, window).await
    }

    async fn suspected(&self, rows: usize) -> Result<Vec<Suspicion>, StoreError> {
        self.0.back.suspected(rows).await
    }
}

fn is_unavailable(error: &StoreError) -> bool {
    error.kind() == ErrorKind::Unavailable
}

// === impl Tiers ===

impl Tiers {
    fn is_gateway(&self) -> bool {
        self.is_gateway.load(Ordering::Relaxed)
    }

    async fn complete(self: &Arc<Self>, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        if take::finish(self, lease, response).await {
            return Ok(Written::Done);
        }
        let (record, fence) = (lease.record, lease.fence);
        self.settle_ours(record).await?;
        // Both from before PostgreSQL is asked: what it says afterwards may already belong to another generation.
        let (generation, asked) = (self.generation.get(), self.front.clock(record));
        let completion = self.back.complete_timed(lease, response).await?;
        // What was completed before may have another response, which PostgreSQL keeps.
        let times = completion.times.filter(postgres::Times::are_of_now);
        if let (Some(generation), Some(asked), Some(times)) = (generation, asked, times) {
            let postgres::Times { completed_at, expires_at, expires_in } = times;
            let stored = Stored { record, fence, asked, completed_at, expires_at, expires_in, response };
            self.tell("complete", self.front.complete(&generation, stored)).await;
        } else {
            self.distrust(record, Some(fence)).await;
        }
        Ok(completion.written)
    }

    async fn purge(self: &Arc<Self>, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        self.settle_ours(seen.record).await?;
        // Before: nobody hears of the record once it is gone, also if we never hear that it is. And after: a front that was
        // emptied in between may have been filled again.
        if seen.state == StateName::Completed && !self.bury(seen.record, seen.fence).await {
            self.void(seen.record).await?;
        }
        let written = self.back.purge(seen, note).await?;
        let is_told = match (written, seen.state) {
            (Written::Done, StateName::Completed) => self.bury(seen.record, seen.fence).await,
            (Written::Done | Written::Stale, _) => {
                self.distrust(seen.record, Some(seen.fence)).await;
                true
            }
        };
        if !is_told {
            self.void(seen.record).await?;
        }
        Ok(written)
    }

    /// Makes void all that the front holds, since it could not be told of a purge.
    async fn void(&self, record: RecordDigest) -> Result<(), StoreError> {
        tracing::warn!(record = record.short(), "the front could not be told of a purge: all of it is dropped");
        self.register.renew().await?;
        // The other gateways see it within a second.
        generation::look(self).await.ok();
        Ok(())
    }

    async fn bury(&self, record: RecordDigest, fence: Fence) -> bool {
        let Some(generation) = self.generation.get() else { return false };
        self.tell("purge", self.front.bury(&generation, record, fence)).await
    }

    async fn distrust(&self, record: RecordDigest, fence: Option<Fence>) {
        if let Some(generation) = self.generation.get() {
            self.tell("distrust", self.front.distrust(&generation, record, fence)).await;
        }
    }

    /// Tells the front something; whether it was told. A front that fails costs no more than its timeout, and not for
    /// long even that.
    async fn tell(&self, what: &'static str, telling: impl Future<Output = Result<(), StoreError>>) -> bool {
        let until = Instant::now() + self.options.front_timeout;
        match self.front_breaker.run(until, telling).await {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(what, error = &error as &dyn std::error::Error, "the front was not told");
                false
            }
        }
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        // Who drains ends.
        self.outbox.wake();
    }
}
