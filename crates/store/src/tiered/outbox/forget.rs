//! Takes what PostgreSQL has out of this gateway's streams. What stands there is for others, should this one die: they would
//! apply it once more, and as long as it stands it takes Redis's memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock},
    time::timeout,
};

use super::super::Tiers;
use crate::redis::front::Sent;

// === types ===

/// What PostgreSQL has, and the front could not be told to forget.
#[derive(Debug, Default)]
pub(in super::super) struct Leftover {
    sent: Mutex<Vec<Sent>>,
    /// Held, for reading, by each who is telling the front just now.
    under_way: Arc<RwLock<()>>,
}

/// Somebody is about to tell the front of something; nobody, if there is somebody who waits for all to be told.
pub(in super::super) type Telling = Option<OwnedRwLockReadGuard<()>>;

/// How much of it is remembered. A front that never forgets, since its user may not, is left alone with the rest.
const SENT_MAX: usize = 1 << 17;

/// How much of it the front is told at once.
const AGAIN_MAX: usize = 1024;

// === forgetting ===

/// Tells the front, and again later where that fails: it speaks against nobody, so the breaker does not hear of it. Who waits
/// for it waits from when `telling` began.
pub(in super::super) fn forget(tiers: &Arc<Tiers>, sent: Vec<Sent>, telling: Telling) {
    if sent.is_empty() || tiers.front_breaker.is_open() {
        return tiers.outbox.leftover.add(sent);
    }
    let tiers = Arc::clone(tiers);
    tokio::spawn(async move {
        let forgetting = tiers.front.forget(&tiers.outbox.name, &sent);
        if !matches!(timeout(tiers.options.front_timeout, forgetting).await, Ok(Ok(()))) {
            tracing::debug!(count = sent.len(), "the front could not be told to forget, and will be told again");
            tiers.outbox.leftover.add(sent);
        }
        drop(telling);
    });
}

/// Tells the front once more of what it could not be told.
pub(super) fn again(tiers: &Arc<Tiers>) {
    let sent = tiers.outbox.leftover.take(AGAIN_MAX);
    forget(tiers, sent, tiers.outbox.leftover.begin());
}

// === impl Leftover ===

impl Leftover {
    /// Before PostgreSQL is said to have something.
    pub(in super::super) fn begin(&self) -> Telling {
        Arc::clone(&self.under_way).try_read_owned().ok()
    }

    /// Waits until the front has been told of what PostgreSQL has by now, as far as it can be; who waits while another does may
    /// miss the last of it, which others apply once more then.
    pub(in super::super) async fn told(&self) {
        drop(self.under_way.write().await);
    }

    fn take(&self, count: usize) -> Vec<Sent> {
        let mut leftover = self.sent();
        let count = count.min(leftover.len());
        leftover.drain(..count).collect()
    }

    fn add(&self, sent: Vec<Sent>) {
        let mut leftover = self.sent();
        leftover.extend(sent);
        leftover.truncate(SENT_MAX);
    }

    fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        // Whoever held the lock could only add or take.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
