//! claim: asking the store, and waiting for others.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;
use oncegate_core::{Claim, ClaimRequest, ErrorKind, RecordDigest, StoreError, Written};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

mod ticks;

pub(crate) use self::ticks::Ticks;

use crate::{
    Account, Entries, Event, Route,
    execute::Execution,
    layer::Gate,
    local::{ClaimKey, Told, Turn, Waiting},
};

// === types ===

/// A guarded request, apart from its body.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub(crate) route: Arc<Route>,
    pub(crate) request: ClaimRequest,
    /// Its `Accept-Encoding`, for a replay.
    pub(crate) accepted: Option<HeaderValue>,
    /// Where to note what becomes of it, if anybody asked.
    pub(crate) account: Option<Account>,
}

/// What a request's turn brought.
pub(crate) enum Claimed {
    /// It is the executor.
    Execute(Box<Execution>),
    /// The store is down, and the route goes on without it.
    Unguarded(Arc<Gate>),
    /// It does not execute.
    Told(Told),
}

/// How long a request waits for another one instead of answering 409.
pub(crate) struct Patience<'a> {
    gate: &'a Gate,
    until: Option<Instant>,
    permit: Option<SemaphorePermit<'a>>,
    pause: Duration,
}

// === impl Guarded ===

impl Guarded {
    pub(crate) fn note(&self, note: impl FnOnce(&mut Entries)) {
        if let Some(account) = &self.account {
            account.note(note);
        }
    }
}

// === claim ===

/// Asks the store, once, and tells whoever waits for this turn.
pub(crate) async fn claim(gate: Arc<Gate>, turn: Turn, guarded: Guarded) -> Claimed {
    let asked = Instant::now();
    let request = &guarded.request;
    let told = ask(&gate, request).await;
    guarded.note(|entries| entries.claim = Some(asked.elapsed()));
    match told {
        Ok(Claim::Acquired(lease)) => {
            guarded.note(|entries| entries.attempt = Some(lease.attempt));
            if lease.attempt > 1 {
                gate.observe(&Event::TakenOver { attempt: lease.attempt });
            }
            turn.executes(request, asked, lease.length);
            Claimed::Execute(Box::new(Execution { gate, turn, guarded, lease, asked }))
        }
        told => {
            if let Ok(Claim::Completed(completed)) = &told {
                let first = ClaimKey::of(request);
                gate.local.remember(request.id.digest(), first, completed.clone(), asked);
            }
            turn.told(request, told.clone());
            match told {
                Err(_) if guarded.route.fail_open => Claimed::Unguarded(gate),
                told => Claimed::Told(told),
            }
        }
    }
}

/// Sends the claim. One that fails or takes too long may stand all the same, so it is withdrawn, unless the store knows
/// better: what was never executed must not end as unknown.
async fn ask(gate: &Arc<Gate>, request: &ClaimRequest) -> Told {
    let asked = Instant::now();
    let answered = timeout(gate.store_timeout, gate.store.claim(request)).await;
    gate.observe(&Event::Claimed { duration: asked.elapsed() });
    let error = match answered {
        Ok(Ok(claim)) => return Ok(claim),
        Ok(Err(error)) => error,
        Err(_) => gate.too_slow(),
    };
    let kind = gate.store_failed("claim", request.id.digest(), &error);
    if kind == ErrorKind::Unavailable && !error.is_unapplied() {
        gate.executions.spawn(withdraw(Arc::clone(gate), request.clone()));
    }
    Err(kind)
}

/// Undoes a claim of which nobody knows whether it stands. Gives up when its lease must have ended:
/// from then on the policy decides.
async fn withdraw(gate: Arc<Gate>, request: ClaimRequest) {
    let Some(owner) = request.owner else { return };
    let record = request.id.digest();
    let until = Instant::now() + request.policy.lease;
    let mut pause = Gate::RETRY_PAUSE_MIN;
    while Instant::now() < until {
        match timeout(gate.store_timeout, gate.store.withdraw(record, owner)).await {
            Ok(Ok(Written::Done | Written::Stale)) => return,
            Ok(Err(error)) => gate.store_failed("withdraw", record, &error),
            Err(_) => gate.store_failed("withdraw", record, &gate.too_slow()),
        };
        sleep(pause).await;
        pause = (pause * 2).min(Gate::RETRY_PAUSE_MAX);
    }
}

// === impl Gate: what asking needs ===

impl Gate {
    /// The first pause before a write is tried again; it doubles.
    pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
    /// The longest pause.
    pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

    pub(crate) fn too_slow(&self) -> StoreError {
        StoreError::new(ErrorKind::Unavailable, format!("no answer within {:?}", self.store_timeout))
    }

    pub(crate) fn store_failed(&self, verb: &'static str, record: RecordDigest, error: &StoreError) -> ErrorKind {
        let kind = error.kind();
        tracing::warn!(verb, record = record.short(), ?kind, error = error as &dyn std::error::Error, "store failed");
        self.observe(&Event::StoreFailed { verb, kind });
        kind
    }

    pub(crate) fn coalesced(&self, claim: Claim) -> Told {
        self.observe(&Event::Coalesced);
        Ok(claim)
    }
}

// === impl Patience ===

impl<'a> Patience<'a> {
    pub(crate) fn new(gate: &'a Gate, route: &Route) -> Self {
        let until = (!route.wait.is_zero()).then(|| Instant::now() + route.wait);
        Self { gate, until, permit: None, pause: Ticks::PAUSE_MIN }
    }

    /// Follows the request whose turn it is. `Some` ends the waiting with that answer.
    pub(crate) async fn follow(&mut self, waiting: Waiting, request: &ClaimRequest) -> Option<Told> {
        let Some(otherwise) = waiting.otherwise.clone() else {
            // The store is being asked: that takes no longer than its timeout.
            return waiting.next(request).await;
        };
        let told = match self.until() {
            Some(until) => timeout_at(until, waiting.next(request)).await,
            None => return Some(self.gate.coalesced(otherwise)),
        };
        told.unwrap_or_else(|_| Some(self.gate.coalesced(otherwise)))
    }

    /// Waits a little if another process executes and there is time; then the store is asked again.
    pub(crate) async fn pause(&mut self, record: RecordDigest, told: &Told) -> bool {
        let Ok(Claim::InFlight { retry_after }) = told else { return false };
        let Some(until) = self.until() else { return false };
        let now = Instant::now();
        if now >= until {
            return false;
        }
        let lease_end = now + (*retry_after).max(Duration::from_millis(1));
        let next = self.gate.ticks.next(record, self.pause);
        self.pause = (self.pause * 2).min(Ticks::PAUSE_MAX);
        sleep_until(next.min(lease_end).min(until)).await;
        true
    }

    /// Until when this request may wait, if it may.
    fn until(&mut self) -> Option<Instant> {
        let until = self.until?;
        if self.permit.is_none() {
            self.permit = Some(self.gate.waiters.try_acquire().ok()?);
        }
        Some(until)
    }
}
