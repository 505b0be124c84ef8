//! Group commit: what is committed together, what fails alone, what is not written at all.

use std::{
    fs,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use oncegate_core::{Claim, Clock, ErrorKind, StateName, Store, StoredResponse, Timestamp, Written};
use oncegate_store::sqlite::Options;

use crate::fixture::{Held, Place, acquire, purge, queue, request, response};

#[tokio::test]
async fn what_has_queued_up_is_committed_at_once() {
    let place = Place::fresh();
    let store = place.open();
    let before = place.commits();
    let held = Held::of(&place);
    let requests: Vec<_> = (0..100).map(|number| request(&format!("k{number}"))).collect();
    let mut claims: Vec<_> = requests.iter().map(|request| store.claim(request)).collect();
    claims.iter_mut().for_each(queue);
    drop(held);
    for claim in claims {
        assert!(matches!(claim.await.unwrap(), Claim::Acquired(_)));
    }
    // The thread had taken the first few before it met the lock; all others were waiting behind them.
    let commits = place.commits() - before;
    assert!((1..=2).contains(&commits), "{commits} commits for 100 claims");
}

#[tokio::test]
async fn a_verb_alone_is_committed_alone() {
    let place = Place::fresh();
    let store = place.open();
    let before = place.commits();
    for number in 1..=3 {
        acquire(&store, &request(&format!("k{number}"))).await;
        assert_eq!(place.commits() - before, number);
    }
}

#[tokio::test]
async fn large_responses_are_spread_over_transactions() {
    let place = Place::fresh();
    let mut options = place.options();
    options.batch_bytes_max = 64 << 10;
    let store = place.open_with(options);
    let mut leases = Vec::new();
    for number in 0..8 {
        leases.push(acquire(&store, &request(&format!("k{number}"))).await);
    }
    let (before, large) = (place.commits(), response(&[b'x'; 40 << 10]));
    let held = Held::of(&place);
    let mut completions: Vec<_> = leases.iter().map(|lease| store.complete(lease, &large)).collect();
    completions.iter_mut().for_each(queue);
    drop(held);
    for completion in completions {
        assert_eq!(completion.await.unwrap(), Written::Done);
    }
    assert_eq!(place.commits() - before, 8);
}

#[tokio::test]
async fn a_verb_that_fails_fails_alone_and_leaves_no_half() {
    let place = Place::fresh();
    let store = place.open();
    let mut leases = Vec::new();
    for number in 0..6 {
        leases.push(acquire(&store, &request(&format!("k{number}"))).await);
    }
    let (good, poisoned) = (response(b"good"), StoredResponse { status: 42, ..response(b"poisoned") });
    let held = Held::of(&place);
    let mut completions: Vec<_> =
        leases.iter().map(|lease| store.complete(lease, if lease == &leases[3] { &poisoned } else { &good })).collect();
    completions.iter_mut().for_each(queue);
    drop(held);
    for (number, completion) in completions.into_iter().enumerate() {
        match number {
            3 => assert!(completion.await.is_err()),
            _ => assert_eq!(completion.await.unwrap(), Written::Done),
        }
    }
    for (number, lease) in leases.iter().enumerate() {
        let (record, stored) = store.get(lease.record).await.unwrap().unwrap();
        match number {
            3 => assert_eq!((record.state.name(), stored), (StateName::InFlight, None)),
            _ => assert_eq!((record.state.name(), stored), (StateName::Completed, Some(good.clone()))),
        }
    }
}

#[tokio::test]
async fn a_repeat_and_a_stale_write_write_nothing() {
    let place = Place::fresh();
    let store = place.open();
    let (done, running) = (request("done"), request("running"));
    let lease = acquire(&store, &done).await;
    assert_eq!(store.complete(&lease, &response(b"first")).await.unwrap(), Written::Done);
    acquire(&store, &running).await;

    let before = (fs::read(place.wal()).unwrap(), fs::read(place.path()).unwrap());
    let repeat = |key| request(key);
    assert!(matches!(store.claim(&repeat("done")).await.unwrap(), Claim::Completed(_)));
    assert!(matches!(store.claim(&repeat("running")).await.unwrap(), Claim::InFlight { .. }));
    assert!(matches!(store.claim(&running).await.unwrap(), Claim::Acquired(_)));
    assert_eq!(store.complete(&lease, &response(b"again")).await.unwrap(), Written::Done);
    assert_eq!(store.release(&lease).await.unwrap(), Written::Stale);
    assert_eq!(store.extend(&lease, Duration::from_secs(1)).await.unwrap(), Written::Stale);
    assert_eq!(store.reap(100).await.unwrap().expired, 0);
    assert!(before == (fs::read(place.wal()).unwrap(), fs::read(place.path()).unwrap()), "a page was written");
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_claims_first() {
    let place = Place::fresh();
    let mut options = place.options();
    options.queue_max = 8;
    options.batch_max = 1;
    let store = place.open_with(options);
    let lease = acquire(&store, &request("first")).await;

    let held = Held::of(&place);
    let requests: Vec<_> = (0..20).map(|number| request(&format!("k{number}"))).collect();
    let mut queued = Vec::new();
    let refused = loop {
        // One verb is with the thread, six wait: two places of eight are kept for what is no claim.
        let mut claim = store.claim(&requests[queued.len()]);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match claim.as_mut().poll(&mut context) {
            std::task::Poll::Pending => queued.push(claim),
            std::task::Poll::Ready(refused) => break refused,
        }
    };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Overloaded);
    assert!((6..=7).contains(&queued.len()), "{} claims fit", queued.len());
    let stored = response(b"room is left for this");
    let mut completion = store.complete(&lease, &stored);
    queue(&mut completion);

    drop(held);
    for claim in queued {
        assert!(matches!(claim.await.unwrap(), Claim::Acquired(_)));
    }
    assert_eq!(completion.await.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_claim_whose_caller_left_before_its_turn_is_not_carried_out() {
    let place = Place::fresh();
    let store = place.open();
    let (first, left, last) = (request("first"), request("left"), request("last"));
    let held = Held::of(&place);
    let (mut one, mut two, mut three) = (store.claim(&first), store.claim(&left), store.claim(&last));
    [&mut one, &mut two, &mut three].into_iter().for_each(queue);
    drop(two);
    drop(held);
    one.await.unwrap();
    three.await.unwrap();
    assert_eq!(store.get(left.id.digest()).await.unwrap(), None);
    acquire(&store, &request("left")).await;
}

#[tokio::test]
async fn a_completion_whose_caller_left_is_carried_out_before_the_store_closes() {
    let place = Place::fresh();
    let store = place.open();
    let lease = acquire(&store, &request("k")).await;
    let stored = response(b"kept");
    queue_and_leave(&place, store.complete(&lease, &stored));
    drop(store);
    let (_, found) = place.open().get(lease.record).await.unwrap().unwrap();
    assert_eq!(found, Some(stored));
}

fn queue_and_leave<F: Future + Unpin>(place: &Place, mut verb: F) {
    let held = Held::of(place);
    queue(&mut verb);
    drop(verb);
    drop(held);
}

#[tokio::test]
async fn a_withdrawal_follows_the_claim_that_it_undoes() {
    let place = Place::fresh();
    let store = place.open();
    let request = request("k");
    let owner = request.owner.unwrap();
    let mut claim = pin!(store.claim(&request));
    let held = Held::of(&place);
    queue(&mut claim);
    let mut withdrawal = store.withdraw(request.id.digest(), owner);
    queue(&mut withdrawal);
    drop(held);
    assert!(matches!(claim.await.unwrap(), Claim::Acquired(_)));
    assert_eq!(withdrawal.await.unwrap(), Written::Done);
    assert_eq!(store.get(request.id.digest()).await.unwrap(), None);
}

#[tokio::test]
async fn a_file_that_stays_locked_is_unavailable_and_recovers() {
    let place = Place::fresh();
    let mut options = place.options();
    options.busy_timeout = Duration::from_millis(20);
    let store = place.open_with(options);
    let held = Held::of(&place);
    let error = store.claim(&request("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("records.db is locked"), "{error}");
    drop(held);
    acquire(&store, &request("k")).await;
}

#[derive(Debug, Default)]
struct FragileClock(AtomicBool);

impl Clock for FragileClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "this panic is part of the test");
        Timestamp::from_micros(1)
    }
}

#[tokio::test]
async fn a_panic_is_an_error_for_its_verb_and_the_store_goes_on() {
    let place = Place::fresh();
    let clock = Arc::new(FragileClock::default());
    let store = place.open_with(Options::with_clock(clock.clone()));
    clock.0.store(true, Ordering::SeqCst);
    assert_eq!(store.claim(&request("k")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(store.census().await.unwrap_err().kind(), ErrorKind::Unavailable);
    clock.0.store(false, Ordering::SeqCst);
    acquire(&store, &request("k")).await;
}

#[tokio::test]
async fn reads_do_not_wait_for_the_writer() {
    let place = Place::fresh();
    let store = place.open();
    let lease = acquire(&store, &request("k")).await;
    let _held = Held::of(&place);
    assert!(store.get(lease.record).await.unwrap().is_some());
    assert_eq!(store.census().await.unwrap().in_flight, 1);
    assert_eq!(store.list(&oncegate_core::Filter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_file_refuses_what_needs_room_and_loses_nothing() {
    let place = Place::fresh();
    let mut options = place.options();
    options.file_bytes_max = Some(512 << 10);
    let store = place.open_with(options);
    let large = response(&[b'x'; 32 << 10]);
    let mut leases = Vec::new();
    let full = loop {
        assert!(leases.len() < 16, "{} bytes each fit into the file", 32 << 10);
        let lease = acquire(&store, &request(&format!("k{}", leases.len()))).await;
        match store.complete(&lease, &large).await {
            Ok(written) => assert_eq!(written, Written::Done),
            Err(error) => break (lease, error),
        }
        leases.push(lease);
    };
    let (refused, error) = full;
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(leases.len() > 5);

    // Nothing is lost or half done: what was stored is replayed, what was refused is still in flight.
    for lease in &leases {
        assert_eq!(store.get(lease.record).await.unwrap().unwrap().1.as_ref(), Some(&large));
    }
    assert_eq!(store.get(refused.record).await.unwrap().unwrap().0.state.name(), StateName::InFlight);
    assert!(matches!(store.claim(&request("k0")).await.unwrap(), Claim::Completed(_)));

    // Room is made, and the same completion is stored.
    for lease in &leases[..3] {
        purge(&store, lease).await;
    }
    assert_eq!(store.complete(&refused, &large).await.unwrap(), Written::Done);
}

#[tokio::test]
async fn a_full_file_refuses_only_the_verbs_that_need_room() {
    let place = Place::fresh();
    let mut options = place.options();
    options.file_bytes_max = Some(256 << 10);
    let store = place.open_with(options);
    let (first, second) = (acquire(&store, &request("a")).await, acquire(&store, &request("b")).await);
    let (small, large) = (response(b"small"), response(&[b'x'; 400 << 10]));
    let held = Held::of(&place);
    let mut too_large = store.complete(&first, &large);
    let mut fits = store.complete(&second, &small);
    [&mut too_large, &mut fits].into_iter().for_each(queue);
    drop(held);
    assert_eq!(too_large.await.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(fits.await.unwrap(), Written::Done);
}
