//! What this process knows without asking the store: who executes here, and what ended just now.
//!
//! Repeats of one key in one process coalesce: at most one of them at a time asks the store. Every
//! answer from here is judged with the asking request's own fingerprint.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use oncegate_core::{
    Claim, ClaimRequest, Comparison, Completed, ErrorKind, FirstUse, Operation, RecordDigest, StateName,
};
use tokio::{sync::watch, time::Instant};

use self::cache::{Cache, Cached};

mod cache;

// === types ===

/// The records that this process executes or remembers.
#[derive(Debug)]
pub(crate) struct Local {
    turns: Arc<Turns>,
    cache: Cache,
}

type Turns = Mutex<HashMap<RecordDigest, watch::Receiver<Phase>>>;

/// What the store said, or why it could not be asked.
pub(crate) type Told = Result<Claim, ErrorKind>;

/// What a request finds.
#[derive(Debug)]
pub(crate) enum Join {
    /// The answer.
    Answer(Claim),
    /// Somebody asks the store or executes here; wait for the next phase, then join again.
    Wait(Waiting),
    /// It is this request's turn to ask the store.
    Lead(Turn),
}

/// A request that follows another one.
#[derive(Debug)]
pub(crate) struct Waiting {
    phases: watch::Receiver<Phase>,
    /// The answer if there is no time to wait; `None` while the store is being asked.
    pub(crate) otherwise: Option<Claim>,
}

/// The right to ask the store for a record and to execute it here; one at a time for each record.
/// Its end, also by a panic, wakes whoever waits.
#[derive(Debug)]
pub(crate) struct Turn {
    record: RecordDigest,
    phase: watch::Sender<Phase>,
    turns: Arc<Turns>,
}

/// How far the leader got.
#[derive(Debug, Clone)]
enum Phase {
    /// It asks the store.
    Claiming,
    /// It executes under a lease that ends then.
    Executing { first: ClaimKey, lease_end: Instant },
    /// The store said this to a request with this fingerprint, which does not execute.
    Told { asked: ClaimKey, told: Told },
    /// Nothing is known here any more; ask the store.
    Over,
}

/// What judging a repeat needs of the request that it repeats.
#[derive(Debug, Clone)]
pub(crate) struct ClaimKey {
    pub(crate) fingerprint: oncegate_core::Fingerprint,
    pub(crate) operation: Operation,
}

// === impl Local ===

impl Local {
    pub(crate) fn new(cache_bytes: u64) -> Self {
        Self { turns: Arc::default(), cache: Cache::new(cache_bytes) }
    }

    /// Finds out what this process can say to a request.
    ///
    /// Turns and cache are read under one lock, and a leader fills the cache before its turn ends:
    /// so no repeat slips between the two and asks the store for what has just ended here.
    pub(crate) fn join(&self, request: &ClaimRequest) -> Join {
        let record = request.id.digest();
        let mut turns = lock(&self.turns);
        if let Some(phases) = turns.get(&record)
            && let Some(join) = follow(phases, request)
        {
            return join;
        }
        if let Some(cached) = self.cache.get(record) {
            return Join::Answer(judge_cached(&cached, request));
        }
        let (phase, phases) = watch::channel(Phase::Claiming);
        turns.insert(record, phases);
        Join::Lead(Turn { record, phase, turns: Arc::clone(&self.turns) })
    }

    /// Remembers a completed record for a short while; its fingerprint was checked by the store or
    /// is the executor's own.
    pub(crate) fn remember(&self, record: RecordDigest, first: ClaimKey, completed: Completed, asked: Instant) {
        self.cache.insert(record, Cached::new(first, completed, asked));
    }
}

/// What a request does about a turn that is not its own; `None` if that turn no longer counts.
fn follow(phases: &watch::Receiver<Phase>, request: &ClaimRequest) -> Option<Join> {
    // Before the phase is read: from here on the leader knows that somebody follows (see `Turn::go_on`).
    let mut phases = phases.clone();
    let otherwise = match &*phases.borrow_and_update() {
        Phase::Claiming => None,
        // A local entry dies with its lease: the store knows better by now.
        Phase::Executing { lease_end, .. } if *lease_end <= Instant::now() => return None,
        Phase::Executing { first, lease_end } => {
            let in_flight = Claim::InFlight { retry_after: *lease_end - Instant::now() };
            match judged(first, StateName::InFlight, request) {
                Some(refused) => return Some(Join::Answer(refused)),
                None => Some(in_flight),
            }
        }
        Phase::Told { .. } | Phase::Over => return None,
    };
    Some(Join::Wait(Waiting { phases, otherwise }))
}

fn judge_cached(cached: &Cached, request: &ClaimRequest) -> Claim {
    let refused = judged(&cached.first, StateName::Completed, request);
    refused.unwrap_or_else(|| Claim::Completed(cached.completed()))
}

/// The refusal that a request gets for its fingerprint, if it gets one.
fn judged(first: &ClaimKey, state: StateName, request: &ClaimRequest) -> Option<Claim> {
    match first.fingerprint.compare(&request.fingerprint) {
        Comparison::Same => None,
        Comparison::Different => Some(Claim::Mismatch(FirstUse { operation: first.operation.clone(), state })),
        Comparison::Incomparable => Some(Claim::RulesChanged { recorded: first.fingerprint }),
    }
}

fn lock(turns: &Turns) -> MutexGuard<'_, HashMap<RecordDigest, watch::Receiver<Phase>>> {
    // No code under the lock can leave the map half-changed.
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl ClaimKey ===

impl ClaimKey {
    pub(crate) fn of(request: &ClaimRequest) -> Self {
        Self { fingerprint: request.fingerprint, operation: request.operation.clone() }
    }
}

// === impl Waiting ===

impl Waiting {
    /// Waits until the leader has got further. `Some` is what the store said to it, if that holds for
    /// this request too; otherwise join again. Dropping the future changes nothing.
    pub(crate) async fn next(mut self, request: &ClaimRequest) -> Option<Told> {
        // An error says that the leader is gone: that is further, too.
        self.phases.changed().await.ok();
        match &*self.phases.borrow() {
            // What the store said holds for the same request; another one must ask for itself. A
            // store that failed has failed for all.
            Phase::Told { asked, told } => {
                let holds = told.is_err() || asked.fingerprint == request.fingerprint;
                holds.then(|| told.clone())
            }
            Phase::Claiming | Phase::Executing { .. } | Phase::Over => None,
        }
    }
}

// === impl Turn ===

impl Turn {
    /// This process executes, under a lease of `length` counted from the moment the store was asked.
    pub(crate) fn executes(&self, request: &ClaimRequest, asked: Instant, length: Duration) {
        self.go_on(Phase::Executing { first: ClaimKey::of(request), lease_end: asked + length });
    }

    /// The lease goes on. Nobody needs to wake up for that.
    pub(crate) fn extended(&self, asked: Instant, length: Duration) {
        self.phase.send_if_modified(|phase| {
            if let Phase::Executing { lease_end, .. } = phase {
                *lease_end = asked + length;
            }
            false
        });
    }

    /// The record is settled: whoever comes from now on finds it in the cache or asks the store, also while the answer is
    /// still on its way.
    pub(crate) fn settled(&self) {
        self.go_on(Phase::Over);
    }

    /// The store was asked, and this request does not execute.
    pub(crate) fn told(self, request: &ClaimRequest, told: Told) {
        self.go_on(Phase::Told { asked: ClaimKey::of(request), told });
    }

    /// Wakes whoever follows, which costs more than all the rest of a turn; hardly ever does anybody. Who began to
    /// follow and has read the phase before is counted: both happen under the phase's lock, in this order.
    fn go_on(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            *phase = next;
            self.phase.receiver_count() > Self::OWN_RECEIVERS
        });
    }

    /// The one among the turns, for others to clone.
    const OWN_RECEIVERS: usize = 1;
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Entry::Occupied(entry) = lock(&self.turns).entry(self.record)
            && entry.get().same_channel(&self.phase.subscribe())
        {
            entry.remove();
        }
        // What the store told stays readable for those who hold a receiver.
        self.phase.send_if_modified(|phase| match phase {
            Phase::Claiming | Phase::Executing { .. } => {
                *phase = Phase::Over;
                // The turns' own is gone, and so nobody can begin to follow any more.
                self.phase.receiver_count() > 0
            }
            Phase::Told { .. } | Phase::Over => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use oncegate_core::{Backend, Fingerprint, IdempotencyKey, KeySpelling, Policy, RecordId, Scope};

    use super::*;

    #[test]
    fn who_comes_after_a_record_is_settled_does_not_follow_its_executor() {
        let request = ClaimRequest {
            id: RecordId::new(Scope::anonymous(), IdempotencyKey::new("k").unwrap()),
            fingerprint: Fingerprint::from_bytes(&[1]).unwrap(),
            owner: None,
            operation: Operation::new("POST", "/payments"),
            spelling: KeySpelling::Bare,
            policy: Policy::gateway(Backend::Plain).into(),
        };
        let local = Local::new(0);
        let Join::Lead(turn) = local.join(&request) else { panic!("nobody else asks") };
        turn.executes(&request, Instant::now(), Duration::from_secs(30));
        assert!(matches!(local.join(&request), Join::Wait(_)));
        turn.settled();
        let Join::Lead(next) = local.join(&request) else { panic!("it follows who has settled the record") };
        drop(turn);
        assert!(matches!(local.join(&request), Join::Wait(_)), "the end of the first turn is not that of the next");
        drop(next);
    }
}
