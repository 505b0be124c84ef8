//! reap: deletes what expired and doubts what was abandoned, in bounded batches.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, STATES, Trial, at_once, idempotent, repeat, request, response, under, word},
};
use crate::{Claim, DoubtReason, Reaped, State, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    reaping_an_empty_store_does_nothing,
    reap_deletes_what_expired_in_every_state,
    reap_doubts_what_was_abandoned_before_a_plain_backend,
    reap_leaves_to_the_taker_what_may_be_taken_over,
    reap_spares_the_living,
    reap_is_bounded_in_both_duties,
    a_bounded_pass_does_not_revive_what_expired,
    reap_moves_the_expiry_of_what_it_doubts,
    completion_after_reaping_is_accepted,
    a_claim_of_an_expired_record_needs_no_reaper,
    concurrent_reapers_and_claims_do_not_disturb_each_other,
];

async fn reaping_an_empty_store_does_nothing(trial: Trial) {
    assert_eq!(trial.reap(10).await, Reaped::default());
    trial.acquire(&request("k")).await;
    assert_eq!(trial.reap(10).await, Reaped::default());
}

async fn reap_deletes_what_expired_in_every_state(trial: Trial) {
    for state in STATES {
        trial.acquire_and_bring_to(state, &request(state.as_str())).await;
    }
    trial.advance(RETENTION + MOMENT).await;
    assert_eq!(trial.reap(10).await, Reaped { expired: 3, doubted: 0 }, "what is expired is not doubted any more");
    assert_eq!(trial.reap(10).await, Reaped::default());
}

async fn reap_doubts_what_was_abandoned_before_a_plain_backend(trial: Trial) {
    let first = request("k");
    let lease = trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let now = trial.now().await;
    assert_eq!(trial.reap(10).await, Reaped { expired: 0, doubted: 1 });
    let record = trial.record(&first).await;
    let State::Unknown { since, reason } = &record.state else { panic!("{record:?}") };
    assert_eq!((reason, record.fence, record.owner), (&DoubtReason::WORKER_DIED, lease.fence, first.owner));
    assert!(trial.same_time(*since, now), "{record:?}");
    let Claim::Unknown(told) = trial.claim(&repeat(&first)).await else { panic!("doubted by the reaper") };
    assert_eq!((told.reason, told.since), (DoubtReason::WORKER_DIED, *since));
    assert_eq!(trial.reap(10).await, Reaped::default());
}

async fn reap_leaves_to_the_taker_what_may_be_taken_over(trial: Trial) {
    let first = idempotent("k");
    trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    let before = trial.record(&first).await;
    assert_eq!(trial.reap(10).await, Reaped::default());
    assert_eq!(trial.record(&first).await, before);
    assert_eq!(trial.acquire(&repeat(&first)).await.attempt, 2);
}

async fn reap_spares_the_living(trial: Trial) {
    let extended = request("extended");
    let lease = trial.acquire(&extended).await;
    assert_eq!(trial.extend(&lease, LEASE * 4).await, Written::Done);
    trial.advance(LEASE * 3).await;
    let mut living = vec![extended];
    for state in STATES {
        let request = request(state.as_str());
        trial.acquire_and_bring_to(state, &request).await;
        living.push(request);
    }
    let mut before = Vec::new();
    for request in &living {
        before.push(trial.get(request.id.digest()).await);
    }
    assert_eq!(trial.reap(100).await, Reaped::default());
    for (request, before) in living.iter().zip(before) {
        assert_eq!(trial.get(request.id.digest()).await, before);
    }
}

async fn reap_is_bounded_in_both_duties(trial: Trial) {
    for number in 0..5 {
        let short = under(&request(&format!("expired{number}")), |policy| policy.retention = LEASE);
        trial.acquire(&short).await;
        trial.acquire(&request(&format!("abandoned{number}"))).await;
    }
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.reap(0).await, Reaped::default());
    let mut total = Reaped::default();
    for _ in 0..3 {
        let reaped = trial.reap(2).await;
        assert!(reaped.expired <= 2 && reaped.doubted <= 2, "{reaped:?}");
        total.expired += reaped.expired;
        total.doubted += reaped.doubted;
    }
    assert_eq!(total, Reaped { expired: 5, doubted: 5 }, "and every pass goes on where the last one ended");
    assert_eq!(trial.reap(2).await, Reaped::default());
    let census = trial.census().await;
    assert_eq!((census.unknown, census.in_flight + census.abandoned + census.completed), (5, 0));
}

async fn a_bounded_pass_does_not_revive_what_expired(trial: Trial) {
    let expired = |number| under(&request(&format!("k{number}")), |policy| policy.retention = LEASE);
    for number in 0..8 {
        trial.acquire(&expired(number)).await;
    }
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.reap(1).await, Reaped { expired: 1, doubted: 0 });
    for number in 0..8 {
        assert!(trial.is_absent(&expired(number)).await);
        assert_eq!(trial.outcome(&expired(number)).await, "acquired");
    }
}

async fn reap_moves_the_expiry_of_what_it_doubts(trial: Trial) {
    let first = request("k");
    trial.acquire(&first).await;
    trial.advance(RETENTION - MOMENT).await;
    let now = trial.now().await;
    assert_eq!(trial.reap(10).await.doubted, 1);
    let record = trial.record(&first).await;
    assert!(trial.same_time(record.expires_at, now.after(RETENTION)), "{record:?}");
    trial.advance(RETENTION - MOMENT).await;
    assert_eq!(trial.outcome(&repeat(&first)).await, "unknown", "an operator has the whole retention to resolve it");
}

async fn completion_after_reaping_is_accepted(trial: Trial) {
    let first = request("k");
    let lease = trial.acquire(&first).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.reap(10).await.doubted, 1);
    assert_eq!(trial.extend(&lease, LEASE).await, Written::Stale);
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.outcome(&repeat(&first)).await, "completed");
}

async fn a_claim_of_an_expired_record_needs_no_reaper(trial: Trial) {
    let first = request("k");
    trial.acquire_and_bring_to(StateName::Completed, &first).await;
    trial.advance(RETENTION + MOMENT).await;
    let lease = trial.acquire(&repeat(&first)).await;
    assert_eq!(trial.reap(10).await, Reaped::default(), "the new life is not reaped in place of the old one");
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
}

async fn concurrent_reapers_and_claims_do_not_disturb_each_other(trial: Trial) {
    let old = |number: usize| under(&request(&format!("old{number}")), |policy| policy.retention = LEASE);
    for number in 0..16 {
        trial.acquire(&old(number)).await;
    }
    trial.advance(LEASE + MOMENT).await;
    let handles = [trial.clone(), trial.another().await];
    let work = |number: usize| {
        let trial = handles[number % 2].clone();
        async move {
            if number < 4 {
                return trial.reap(3).await.expired;
            }
            let claim = trial.claim(&old(number - 4)).await;
            assert_eq!(word(&claim), "acquired", "an expired record is absent, whether or not it is reaped yet");
            0
        }
    };
    let reaped: usize = at_once((0..20).map(work)).await.into_iter().sum();
    assert!(reaped <= 12, "{reaped} reaped in four passes of three");
    assert_eq!(trial.census().await.in_flight, 16);
}
