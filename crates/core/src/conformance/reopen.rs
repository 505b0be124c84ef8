//! Several handles on the same data, and data that outlives them.

use super::{
    Case,
    trial::{LEASE, MOMENT, Trial, idempotent, repeat, request, response},
};
use crate::{Filter, Lease, Written};

pub(super) const CASES: &[Case] = cases![
    every_handle_sees_what_another_wrote,
    a_lease_is_good_on_every_handle,
    records_and_responses_survive_closing,
    a_lease_survives_closing,
    fence_is_never_reused_after_reopening,
];

async fn every_handle_sees_what_another_wrote(trial: Trial) {
    let other = trial.another().await;
    let first = request("k");
    let lease = trial.acquire(&first).await;
    assert_eq!(other.outcome(&repeat(&first)).await, "in_flight");
    assert_eq!(other.record(&first).await, trial.record(&first).await);
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(*other.replay(&repeat(&first)).await.response, response(201));
    assert_eq!(other.list(&Filter::default()).await, trial.list(&Filter::default()).await);
    assert_eq!(other.census().await, trial.census().await);
}

async fn a_lease_is_good_on_every_handle(trial: Trial) {
    let other = trial.another().await;
    let request = idempotent("k");
    let old = trial.acquire(&request).await;
    assert_eq!(other.extend(&old, LEASE).await, Written::Done);
    trial.advance(LEASE + MOMENT).await;
    let taken = other.acquire(&repeat(&request)).await;
    assert!(taken.fence > old.fence);
    assert_eq!(trial.complete(&old, &response(500)).await, Written::Stale);
    assert_eq!(trial.complete(&taken, &response(201)).await, Written::Done);
    assert_eq!(other.complete(&taken, &response(201)).await, Written::Done, "its own earlier success");
}

async fn records_and_responses_survive_closing(trial: Trial) {
    let mut before = Vec::new();
    for state in super::trial::STATES {
        let lease = trial.acquire_and_bring_to(state, &request(state.as_str())).await;
        before.push((lease.record, trial.get(lease.record).await));
    }
    let Some(trial) = trial.reopened().await else { return };
    for (record, before) in before {
        assert_eq!(trial.get(record).await, before);
    }
    assert_eq!(*trial.replay(&request("completed")).await.response, response(201));
}

async fn a_lease_survives_closing(trial: Trial) {
    let request = request("k");
    let lease = trial.acquire(&request).await;
    let Some(trial) = trial.reopened().await else { return };
    assert_eq!(trial.outcome(&repeat(&request)).await, "in_flight");
    assert_eq!(trial.acquire(&request).await.fence, lease.fence, "its own claim is recognised");
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn fence_is_never_reused_after_reopening(trial: Trial) {
    let first = request("k");
    let mut old: Lease = trial.acquire(&first).await;
    assert_eq!(trial.release(&old).await, Written::Done, "no record is left that could remember the fence");
    let mut trial = trial;
    for _ in 0..3 {
        let Some(reopened) = trial.reopened().await else { return };
        trial = reopened;
        let lease = trial.acquire(&repeat(&first)).await;
        assert!(lease.fence > old.fence, "{lease:?} after {old:?}");
        assert_eq!(trial.complete(&old, &response(500)).await, Written::Stale);
        assert_eq!(trial.release(&lease).await, Written::Done);
        old = lease;
    }
}
