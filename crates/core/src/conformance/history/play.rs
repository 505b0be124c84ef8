//! Plays a plan against a store, with all callers of a round at once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    super::{
        Harness,
        trial::{at_once, fingerprint, policy, request_in, response},
    },
    call::{Call, Event, History, Reply, Round},
    plan::{self, Asking, Bearer, Pick, Plan, Step},
};
use crate::{Backend, Claim, ClaimRequest, DoubtReason, Fence, Fingerprint, Lease, Owner, Seen, StateName, Store};

// === types ===

/// A store with two handles, on which any number of plans is played one after the other.
pub(super) struct Stage {
    harness: Arc<dyn Harness>,
    handles: [Arc<dyn Store>; 2],
    played: u64,
}

/// What the callers of one history know.
struct Cast {
    /// The request that every caller of a key repeats.
    requests: Vec<ClaimRequest>,
    /// The leases that were given out and the claims that got them, by key, oldest first.
    given: Vec<Vec<(Lease, ClaimRequest)>>,
}

// === impl Stage ===

impl Stage {
    pub(super) async fn open(harness: Arc<dyn Harness>) -> Self {
        let handles = [harness.open().await, harness.open().await];
        Self { harness, handles, played: 0 }
    }

    /// Plays a plan on records that no earlier plan has touched.
    pub(super) async fn play(&mut self, plan: &Plan) -> History {
        self.played += 1;
        let mut cast = Cast::new(plan, self.played);
        let records: Vec<_> = cast.requests.iter().map(|request| request.id.digest()).collect();
        let clock = Arc::new(AtomicU64::new(0));
        let mut rounds = Vec::with_capacity(plan.rounds.len());
        for round in &plan.rounds {
            self.harness.advance(round.pause).await;
            let before = self.harness.now().await;
            let calls = cast.calls(round);
            let events = at_once(calls.into_iter().map(|call| self.event(call, &clock))).await;
            let after = self.harness.now().await;
            cast.learn(&events);
            let mut reads = Vec::with_capacity(records.len());
            for record in &records {
                reads.push(Call::Get(*record).send(&*self.handles[0]).await);
            }
            rounds.push(Round { times: [before, after], events, reads });
        }
        History { records, rounds, drift: self.harness.drift() }
    }

    fn event(&self, (caller, call): (usize, Call), clock: &Arc<AtomicU64>) -> impl Future<Output = Event> + use<> {
        let (store, clock) = (Arc::clone(&self.handles[caller % 2]), Arc::clone(clock));
        async move {
            let sent = clock.fetch_add(1, Ordering::SeqCst);
            let reply = call.send(&*store).await;
            let returned = clock.fetch_add(1, Ordering::SeqCst);
            Event { caller, call, reply, sent, returned }
        }
    }
}

// === impl Cast ===

impl Cast {
    fn new(plan: &Plan, number: u64) -> Self {
        let request = |key: usize| ClaimRequest {
            fingerprint: structured(1, 1),
            policy: policy(plan.backend),
            ..request_in(&format!("history={number}"), &format!("k{key}"))
        };
        Self { requests: (0..plan.keys).map(request).collect(), given: vec![Vec::new(); plan.keys] }
    }

    /// The round's steps as calls, each with its caller.
    fn calls(&self, round: &plan::Round) -> Vec<(usize, Call)> {
        let call = |(caller, step)| self.call(step).map(|call| (caller, call));
        round.steps.iter().enumerate().filter_map(call).collect()
    }

    fn call(&self, step: &Step) -> Option<Call> {
        Some(match step {
            Step::Idle => return None,
            Step::Claim { key, asking } => Call::Claim(self.claim(key % self.requests.len(), *asking)),
            Step::Complete { lease, status } => Call::Complete(self.lease(lease), response(*status)),
            Step::Release { lease } => Call::Release(self.lease(lease)),
            Step::Withdraw { lease } => {
                let lease = self.lease(lease);
                Call::Withdraw(lease.record, lease.owner.unwrap_or_else(Owner::random))
            }
            Step::Extend { lease, length } => Call::Extend(self.lease(lease), *length),
            Step::Doubt { lease } => Call::Doubt(self.lease(lease), DoubtReason::RESET),
            Step::Resolve { lease, state, status } => Call::Resolve(self.seen(lease, *state), response(*status)),
            Step::Purge { lease, state, force } => Call::Purge(self.seen(lease, *state), *force),
            Step::Get { key } => Call::Get(self.requests[key % self.requests.len()].id.digest()),
            Step::Reap => Call::Reap,
        })
    }

    fn claim(&self, key: usize, asking: Asking) -> ClaimRequest {
        let repeat = super::super::trial::repeat(&self.requests[key]);
        match asking {
            Asking::Repeat => repeat,
            Asking::Again => self.given[key].last().map_or(repeat, |(_, request)| request.clone()),
            Asking::Ownerless => ClaimRequest { owner: None, ..repeat },
            Asking::OtherBody => ClaimRequest { fingerprint: structured(1, 2), ..repeat },
            Asking::OtherRules => ClaimRequest { fingerprint: structured(2, 1), ..repeat },
            Asking::Contrary => match repeat.policy.backend {
                Backend::Plain => ClaimRequest { policy: policy(Backend::Idempotent), ..repeat },
                Backend::Idempotent | Backend::Transactional => {
                    ClaimRequest { policy: policy(Backend::Plain), ..repeat }
                }
            },
        }
    }

    fn lease(&self, pick: &Pick) -> Lease {
        let key = pick.key % self.requests.len();
        let given = self.given[key].iter().rev().nth(pick.back);
        let lease = given.map_or_else(|| never_given(&self.requests[key]), |(lease, _)| lease.clone());
        match pick.bearer {
            Bearer::Owner => lease,
            Bearer::Ownerless => super::super::trial::without_owner(&lease),
            Bearer::Stranger => super::super::trial::of_a_stranger(&lease),
        }
    }

    /// What an operator may have seen: the state is a guess, as good as any that is old by now.
    fn seen(&self, pick: &Pick, state: StateName) -> Seen {
        let Lease { record, fence, .. } = self.lease(pick);
        Seen { record, fence, state }
    }

    /// Remembers the leases that a round gave out; a recognised claim gives none anew.
    fn learn(&mut self, events: &[Event]) {
        for event in events {
            let (Call::Claim(request), Reply::Claim(Claim::Acquired(lease))) = (&event.call, &event.reply) else {
                continue;
            };
            let key = self.requests.iter().position(|request| request.id.digest() == lease.record);
            let given = &mut self.given[key.expect("leases are of the records that were claimed")];
            if given.iter().all(|(known, _)| known.fence != lease.fence) {
                given.push((lease.clone(), request.clone()));
            }
        }
    }
}

/// A lease that no store gave out: fences begin above zero.
fn never_given(request: &ClaimRequest) -> Lease {
    Lease {
        record: request.id.digest(),
        fence: Fence::new(0),
        owner: request.owner,
        attempt: 1,
        length: request.policy.lease,
        spelling: request.spelling,
        created_at: crate::Timestamp::from_micros(0),
    }
}

fn structured(rules: u8, hash: u8) -> Fingerprint {
    fingerprint(&[&[1, rules][..], &[0; 7], &[hash; 32]].concat())
}
