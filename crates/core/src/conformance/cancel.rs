//! A dropped verb was applied or was not; nothing is ever half done.
//!
//! Each case drops the verb's future before its first poll, at its first wait, and later; then it
//! does what the contract says of that verb (send it again, withdraw it, look).

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, Trial, cut, note, repeat, request, response, under},
};
use crate::{Claim, ClaimRequest, DoubtReason, Filter, Lease, Record, Seen, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    a_cancelled_claim_is_recognised_when_it_is_sent_again,
    a_cancelled_claim_that_is_withdrawn_leaves_nothing,
    a_cancelled_extension_may_be_sent_again,
    a_cancelled_completion_is_stored_once_when_it_is_sent_again,
    a_cancelled_doubt_may_be_sent_again,
    a_cancelled_release_may_be_sent_again,
    a_cancelled_withdrawal_may_be_sent_again,
    a_cancelled_purge_is_applied_or_not,
    a_cancelled_reap_goes_on_in_the_next_pass,
    cancelled_reads_change_nothing,
];

/// After how many polls a future is dropped.
const POLLS: std::ops::RangeInclusive<usize> = 0..=3;

fn key(polls: usize) -> ClaimRequest {
    request(&format!("k{polls}"))
}

async fn a_cancelled_claim_is_recognised_when_it_is_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        cut(polls, trial.store().claim(&request)).await;
        if let Some((record, stored)) = trial.get(request.id.digest()).await {
            assert_eq!((record.state.name(), record.owner, stored), (StateName::InFlight, request.owner, None));
        }
        let lease = trial.acquire(&request).await;
        assert_eq!(lease.attempt, 1, "dropped after {polls} polls");
        assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight");
        assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    }
}

async fn a_cancelled_claim_that_is_withdrawn_leaves_nothing(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        cut(polls, trial.store().claim(&request)).await;
        // Whether there was anything to withdraw yet is open; that nothing is left is not.
        let _either = trial.withdraw(&request).await;
        assert!(trial.is_absent(&request).await, "dropped after {polls} polls");
        let stranger = repeat(&request);
        let lease = trial.acquire(&stranger).await;
        assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    }
}

async fn a_cancelled_extension_may_be_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire(&request).await;
        trial.advance(MOMENT).await;
        let before = trial.record(&request).await;
        cut(polls, trial.store().extend(&lease, LEASE * 2)).await;
        let between = trial.record(&request).await;
        assert_eq!(trial.extend(&lease, LEASE * 2).await, Written::Done);
        let after = trial.record(&request).await;
        assert!(is_either(&trial, &between, [&before, &after]), "{between:?} after {polls} polls");
    }
}

async fn a_cancelled_completion_is_stored_once_when_it_is_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire(&request).await;
        cut(polls, trial.store().complete(&lease, &response(201))).await;
        let (record, stored) = trial.get(lease.record).await.expect("acquired just now");
        match record.state {
            State::InFlight { .. } => assert_eq!(stored, None, "dropped after {polls} polls"),
            State::Completed { .. } => assert_eq!(stored, Some(response(201)), "dropped after {polls} polls"),
            State::Unknown { .. } => panic!("{record:?}"),
        }
        assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
        assert_eq!(*trial.replay(&repeat(&request)).await.response, response(201));
    }
}

async fn a_cancelled_doubt_may_be_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire(&request).await;
        let before = trial.record(&request).await;
        cut(polls, trial.store().doubt(&lease, &DoubtReason::RESET)).await;
        let between = trial.record(&request).await;
        // Stale when the dropped one was applied: doubt leaves only in flight.
        let _either = trial.doubt(&lease, &DoubtReason::RESET).await;
        let after = trial.record(&request).await;
        assert_eq!(after.state.name(), StateName::Unknown);
        assert!(is_either(&trial, &between, [&before, &after]), "{between:?} after {polls} polls");
    }
}

async fn a_cancelled_release_may_be_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire(&request).await;
        let before = trial.record(&request).await;
        cut(polls, trial.store().release(&lease)).await;
        assert_whole_or_absent(&trial, &lease, &before).await;
        let _either = trial.release(&lease).await;
        assert!(trial.is_absent(&request).await, "dropped after {polls} polls");
        assert_eq!(trial.outcome(&repeat(&request)).await, "acquired");
    }
}

async fn a_cancelled_withdrawal_may_be_sent_again(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire(&request).await;
        let before = trial.record(&request).await;
        let owner = request.owner.expect("requests of cases have one");
        cut(polls, trial.store().withdraw(lease.record, owner)).await;
        assert_whole_or_absent(&trial, &lease, &before).await;
        let _either = trial.withdraw(&request).await;
        assert!(trial.is_absent(&request).await, "dropped after {polls} polls");
    }
}

async fn a_cancelled_purge_is_applied_or_not(trial: Trial) {
    for polls in POLLS {
        let request = key(polls);
        let lease = trial.acquire_and_bring_to(StateName::Completed, &request).await;
        let before = trial.record(&request).await;
        let seen = Seen::of(&before);
        cut(polls, trial.store().purge(seen, &note(false))).await;
        if let Some((record, stored)) = trial.get(lease.record).await {
            assert_eq!((record, stored), (before, Some(response(201))), "dropped after {polls} polls");
        }
        let _either = trial.purge(lease.record, lease.fence, StateName::Completed, false).await;
        assert!(trial.is_absent(&request).await, "dropped after {polls} polls");
    }
}

async fn a_cancelled_reap_goes_on_in_the_next_pass(trial: Trial) {
    for polls in POLLS {
        for number in 0..4 {
            let expiring = under(&request(&format!("expiring{polls}-{number}")), |policy| policy.retention = LEASE);
            trial.acquire(&expiring).await;
            trial.acquire(&request(&format!("abandoned{polls}-{number}"))).await;
        }
        trial.advance(LEASE + MOMENT).await;
        cut(polls, trial.store().reap(3)).await;
        for _ in 0..2 {
            trial.reap(100).await;
        }
        let reaped = trial.reap(100).await;
        assert_eq!((reaped.expired, reaped.doubted), (0, 0), "dropped after {polls} polls");
        let unknown = trial.list(&Filter { state: Some(StateName::Unknown), ..Filter::default() }).await;
        assert_eq!(unknown.len(), 4);
        trial.advance(RETENTION + MOMENT).await;
    }
}

async fn cancelled_reads_change_nothing(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire_and_bring_to(StateName::Completed, &request).await;
    let before = trial.get(lease.record).await;
    for polls in POLLS {
        cut(polls, trial.store().get(lease.record)).await;
        cut(polls, trial.store().list(&Filter::default())).await;
        cut(polls, trial.store().census()).await;
        assert_eq!(trial.get(lease.record).await, before, "dropped after {polls} polls");
    }
    let Claim::Completed(_) = trial.claim(&repeat(&request)).await else { panic!("nothing changed") };
}

/// Whether the record is one or the other, up to what a clock that runs on adds to a second write.
fn is_either(trial: &Trial, record: &Record, [before, after]: [&Record; 2]) -> bool {
    let is_after = record.state.name() == after.state.name() && trial.same_time(record.expires_at, after.expires_at);
    record == before
        || (is_after && Record { state: after.state.clone(), expires_at: after.expires_at, ..record.clone() } == *after)
}

async fn assert_whole_or_absent(trial: &Trial, lease: &Lease, before: &Record) {
    if let Some((record, _)) = trial.get(lease.record).await {
        assert_eq!(record, *before);
    }
}
