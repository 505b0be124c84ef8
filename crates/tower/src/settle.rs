//! complete, release, doubt: how an execution ends in the store.

use std::sync::Arc;

use http::Response;
use oncegate_core::{
    Backend, Claim, Completed, DoubtReason, Doubted, ErrorKind, Record, State, StoredResponse, Written,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Event, ResponseBody, crash,
    execute::Execution,
    layer::Gate,
    local::{ClaimKey, Told},
    replay,
    reply::Reply,
};

// === types ===

/// What is written at the end of an execution.
#[derive(Debug, Clone)]
pub(crate) enum Settlement {
    /// The response is stored.
    Complete(Arc<StoredResponse>),
    /// A repeat may execute.
    Release,
    /// Nobody can tell.
    Doubt(DoubtReason),
}

// === impl Execution: settling ===

impl Execution {
    /// Settles the record, then answers: a repeat that comes after the answer must find the record
    /// settled. A store that fails does not keep the answer back; settling then goes on behind it.
    /// Without a settlement the lease is left to end.
    pub(crate) async fn settle_and_answer<S, B, RB, E>(
        &self,
        settlement: Option<Settlement>,
        reply: &mut Reply<S, B, RB, E>,
        answered: Result<Response<ResponseBody<RB>>, E>,
    ) {
        let status = answered.as_ref().ok().map(|response| response.status().as_u16());
        let Some(settlement) = settlement else {
            let answered = match self.is_said_otherwise(status).await {
                true => Ok(self.answer_of_the_record().await),
                false => answered,
            };
            return reply.send(&self.gate, answered);
        };
        let settled = self.settle_once(&settlement).await;
        let answered = match (&settlement, settled) {
            // Somebody else has the record: what it says is the answer, not what we did.
            (Settlement::Complete(_) | Settlement::Release, Ok(Written::Stale)) => {
                Ok(self.answer_of_the_record().await)
            }
            (Settlement::Doubt(_), Ok(Written::Stale)) if self.is_said_otherwise(status).await => {
                Ok(self.answer_of_the_record().await)
            }
            (Settlement::Complete(_) | Settlement::Release | Settlement::Doubt(_), _) => answered,
        };
        reply.send(&self.gate, answered);
        if settled.is_err() {
            self.settle_further(&settlement).await;
        }
    }

    /// Tries to write once.
    pub(crate) async fn settle_once(&self, settlement: &Settlement) -> Result<Written, ErrorKind> {
        let asked = Instant::now();
        let (store, lease) = (&self.gate.store, &self.lease);
        let writing = async {
            match settlement {
                Settlement::Complete(response) => {
                    crash::point("before_complete");
                    let written = store.complete(lease, response).await;
                    crash::point("after_complete");
                    written
                }
                Settlement::Release => store.release(lease).await,
                Settlement::Doubt(reason) => store.doubt(lease, reason).await,
            }
        };
        let verb = settlement.verb();
        let settled = match timeout(self.gate.store_timeout, writing).await {
            Ok(Ok(Written::Done)) => Ok(self.settled(settlement, asked)),
            Ok(Ok(Written::Stale)) => Ok(self.stale(settlement).await),
            Ok(Err(error)) => Err(self.gate.store_failed(verb, lease.record, &error)),
            Err(_) => Err(self.gate.store_failed(verb, lease.record, &self.gate.too_slow())),
        };
        if settled.is_ok() {
            self.turn.settled();
        }
        settled
    }

    /// Goes on writing, also beyond the lease, until it is written, somebody else has the record, or
    /// the process ends. What a person must repair first ends it, too.
    pub(crate) async fn settle_further(&self, settlement: &Settlement) {
        let mut pause = Gate::RETRY_PAUSE_MIN;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(Gate::RETRY_PAUSE_MAX);
            match self.settle_once(settlement).await {
                Ok(Written::Done | Written::Stale) => return,
                Err(ErrorKind::Corrupt | ErrorKind::Collision) => {
                    let record = self.lease.record.short();
                    return tracing::error!(record, verb = settlement.verb(), "record could not be settled");
                }
                Err(_) => {}
            }
        }
    }

    /// What the record says to this request, now that it is not ours any more.
    pub(crate) async fn answer_of_the_record<RB>(&self) -> Response<ResponseBody<RB>> {
        let found = timeout(self.gate.store_timeout, self.gate.store.get(self.lease.record)).await;
        let told: Told = match found {
            Ok(Ok(Some((record, response)))) => Ok(said_by(record, response)),
            // Released by an operator: a repeat may execute.
            Ok(Ok(None)) => Ok(Claim::InFlight { retry_after: Gate::RETRY_PAUSE_MIN }),
            Ok(Err(error)) => Err(self.gate.store_failed("get", self.lease.record, &error)),
            Err(_) => Err(self.gate.store_failed("get", self.lease.record, &self.gate.too_slow())),
        };
        replay::answer(told, self.guarded.accepted.as_ref())
    }

    fn settled(&self, settlement: &Settlement, asked: Instant) -> Written {
        match settlement {
            Settlement::Complete(response) => {
                self.gate.observe(&Event::Completed { duration: asked.elapsed() });
                if self.guarded.route.policy.backend == Backend::Transactional && response.status < 300 {
                    self.gate.observe(&Event::Uncooperative);
                }
                self.remember(Arc::clone(response), asked);
            }
            Settlement::Doubt(_) => self.gate.observe(&Event::Doubted),
            Settlement::Release => {}
        }
        Written::Done
    }

    /// A stale write is counted, unless the backend itself has completed the record, as a
    /// transactional one does. Its answer is then good, as far as it is the one that it has stored.
    async fn stale(&self, settlement: &Settlement) -> Written {
        if self.guarded.route.policy.backend == Backend::Transactional
            && let Some(status) = self.completed_status().await
        {
            return match settlement {
                Settlement::Complete(response) if response.status == status => Written::Done,
                Settlement::Complete(_) | Settlement::Release | Settlement::Doubt(_) => Written::Stale,
            };
        }
        self.gate.observe(&Event::Stale { verb: settlement.verb(), fence: self.lease.fence });
        Written::Stale
    }

    /// The status that the record was completed with under our fence, if it was.
    async fn completed_status(&self) -> Option<u16> {
        let record = self.look().await.ok().flatten().filter(|record| record.fence == self.lease.fence)?;
        match record.state {
            State::Completed { status, .. } => Some(status),
            State::InFlight { .. } | State::Unknown { .. } => None,
        }
    }

    /// Whether a transactional backend's record says something else than an answer that tells nothing:
    /// it committed before its answer was lost, or it was fenced and rolled back. A record that is still
    /// ours to complete, or a store that cannot be asked, says nothing else.
    async fn is_said_otherwise(&self, answered: Option<u16>) -> bool {
        if self.guarded.route.policy.backend != Backend::Transactional {
            return false;
        }
        match self.look().await {
            Ok(Some(record)) if record.fence == self.lease.fence => match record.state {
                State::Completed { status, .. } => answered != Some(status),
                State::InFlight { .. } | State::Unknown { .. } => false,
            },
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Reads our record, whoever has it now.
    async fn look(&self) -> Result<Option<Record>, ErrorKind> {
        match timeout(self.gate.store_timeout, self.gate.store.get(self.lease.record)).await {
            Ok(Ok(found)) => Ok(found.map(|(record, _)| record)),
            Ok(Err(error)) => Err(self.gate.store_failed("get", self.lease.record, &error)),
            Err(_) => Err(self.gate.store_failed("get", self.lease.record, &self.gate.too_slow())),
        }
    }

    fn remember(&self, response: Arc<StoredResponse>, asked: Instant) {
        let (completed_at, retention) = (self.now(), self.guarded.route.policy.retention);
        let completed =
            Completed { response, completed_at, expires_at: completed_at.after(retention), expires_in: retention };
        self.gate.local.remember(self.lease.record, ClaimKey::of(&self.guarded.request), completed, asked);
    }
}

/// The answer that a record has for its own request.
fn said_by(record: Record, response: Option<StoredResponse>) -> Claim {
    match (record.state, response) {
        (State::Completed { completed_at, .. }, Some(response)) => Claim::Completed(Completed {
            response: Arc::new(response),
            completed_at,
            expires_at: record.expires_at,
            expires_in: record.expires_at.since(completed_at),
        }),
        (State::Unknown { since, reason }, _) => Claim::Unknown(Doubted { reason, since }),
        (State::InFlight { .. }, _) | (State::Completed { .. }, None) => {
            Claim::InFlight { retry_after: Gate::RETRY_PAUSE_MIN }
        }
    }
}

// === impl Settlement ===

impl Settlement {
    fn verb(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Release => "release",
            Self::Doubt(_) => "doubt",
        }
    }
}
