//! Callers that send each request to two stores at once, and how often it is executed while something happens to Redis.

use std::{
    collections::HashMap,
    fmt,
    ops::AddAssign,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use oncegate_core::{Claim, ClaimRequest, Lease, Store};

use crate::fixture::{lasting, repeat, request, response};

/// How long a request may execute. A store that is cold is so for as long.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// All records have one of so many tags, and so slots, so that each slot that moves has some.
pub(crate) const TAGS: u8 = 16;

const CALLERS: usize = 4;

/// How long the service takes, so that something is always executing.
const WORK: Duration = Duration::from_millis(20);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(25);

/// Longer than any fault lasts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many requests are replayed before something happens, and again before it is looked at.
const AROUND: usize = 100;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) faults: usize,
    pub(crate) keys: usize,
    /// Keys that were executed more than once.
    pub(crate) twice: usize,
    /// Of these, while the lease of an earlier execution lasted.
    pub(crate) overlapping: usize,
    /// Keys of which nobody knows any more what became of them.
    pub(crate) unknown: usize,
    pub(crate) replayed: usize,
    pub(crate) refused: usize,
}

/// The load around one fault.
pub(crate) struct Round {
    name: String,
    stores: [Arc<dyn Store>; 2],
    is_over: AtomicBool,
    /// When each execution of each key was asked for, at the earliest.
    executed: Mutex<HashMap<String, Vec<Instant>>>,
    overlapping: AtomicUsize,
    unknown: AtomicUsize,
    replayed: AtomicUsize,
    refused: AtomicUsize,
}

/// How often a server is killed: the figures of `docs/redis.md` are of 200.
pub(crate) fn kills(few: usize) -> usize {
    std::env::var("ONCEGATE_KILLS").map_or(few, |count| count.parse().unwrap())
}

/// How often a Cluster fails over, and how many slots move.
pub(crate) fn moves() -> usize {
    std::env::var("ONCEGATE_MOVES").map_or(1, |count| count.parse().unwrap())
}

/// Lets something happen under load, and asks for everything once more when it is over.
pub(crate) async fn around(stores: &[Arc<dyn Store>; 2], name: &str, fault: impl AsyncFnOnce(&Round)) -> Tally {
    let round = Arc::new(Round::new(stores.clone(), name));
    let callers: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(Arc::clone(&round).call(caller))).collect();
    let replayed = || round.replayed.load(Ordering::Relaxed);
    round.look().await;
    until_more(AROUND, replayed).await;
    fault(&round).await;
    round.look().await;
    until_more(AROUND, replayed).await;
    round.is_over.store(true, Ordering::Relaxed);
    for ended in join_all(callers).await {
        ended.unwrap();
    }
    // What was unknown may have been completed since.
    round.unknown.store(0, Ordering::Relaxed);
    let keys: Vec<_> = round.executed.lock().unwrap().keys().cloned().collect();
    join_all(keys.iter().map(|key| round.ask(0, key))).await;
    round.tally()
}

/// Waits until a counter has grown by so much.
async fn until_more(more: usize, counter: impl Fn() -> usize) {
    let (before, until) = (counter(), Instant::now() + PATIENCE);
    while counter() < before + more {
        assert!(Instant::now() < until, "nothing is answered");
        tokio::time::sleep(PAUSE).await;
    }
}

// === impl Round ===

impl Round {
    fn new(stores: [Arc<dyn Store>; 2], name: &str) -> Self {
        let (is_over, executed) = (AtomicBool::default(), Mutex::default());
        let [overlapping, unknown, replayed, refused] = Default::default();
        Self { name: name.to_owned(), stores, is_over, executed, overlapping, unknown, replayed, refused }
    }

    /// Looks at all tags, as gateways do all the while: what is cold is so for each of them from the same moment on.
    async fn look(&self) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.stores[0].census().await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until so many more claims were answered, be it with an error.
    pub(crate) async fn until_answered(&self, more: usize) {
        until_more(more, || self.replayed.load(Ordering::Relaxed) + self.refused.load(Ordering::Relaxed)).await;
    }

    async fn call(self: Arc<Self>, caller: usize) {
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let mut keys = (0..).map(|salt| format!("{}-{caller}-{number}-{salt}", self.name));
            let key = keys.find(|key| request(key).id.digest().as_bytes()[0] < TAGS).expect("one of them has it");
            // As when a client is impatient.
            tokio::join!(self.ask(0, &key), self.ask(1, &key));
        }
    }

    /// Asks one of the stores, as the same client again and again, until the key is settled.
    async fn ask(&self, store: usize, key: &str) {
        let (store, until) = (&*self.stores[store], Instant::now() + PATIENCE);
        let request = lasting(repeat(&request(key)), LEASE, Duration::from_hours(1));
        let asked = Instant::now();
        let settled = loop {
            match store.claim(&request).await {
                Ok(Claim::Acquired(lease)) => return self.execute(store, &request, (asked, lease)).await,
                Ok(Claim::Completed(_)) => break &self.replayed,
                Ok(Claim::Unknown(_)) => break &self.unknown,
                Ok(Claim::InFlight { .. }) => {}
                Ok(other) => panic!("{key}: {other:?}"),
                Err(error) => {
                    assert!(Instant::now() < until, "{key}: {error}");
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
            tokio::time::sleep(PAUSE).await;
        };
        settled.fetch_add(1, Ordering::Relaxed);
    }

    async fn execute(&self, store: &dyn Store, request: &ClaimRequest, (asked, lease): (Instant, Lease)) {
        {
            let (mut executed, now) = (self.executed.lock().unwrap(), Instant::now());
            let executions = executed.entry(request.id.key().as_str().to_owned()).or_default();
            // A lease began after it was asked for, so it lasts for this long at least.
            let may_run = executions.iter().any(|asked| *asked + LEASE > now);
            self.overlapping.fetch_add(usize::from(may_run), Ordering::Relaxed);
            executions.push(asked);
        }
        tokio::time::sleep(WORK).await;
        let until = Instant::now() + PATIENCE;
        // As the gateway does: until it is stored, or somebody else has the record, or it is gone.
        while let Err(error) = store.complete(&lease, &response(201)).await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn tally(&self) -> Tally {
        let executed = self.executed.lock().unwrap();
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Tally {
            faults: 1,
            keys: executed.len(),
            twice: executed.values().filter(|executions| executions.len() > 1).count(),
            overlapping: count(&self.overlapping),
            unknown: count(&self.unknown),
            replayed: count(&self.replayed),
            refused: count(&self.refused),
        }
    }
}

// === impl Tally ===

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.faults += other.faults;
        self.keys += other.keys;
        self.twice += other.twice;
        self.overlapping += other.overlapping;
        self.unknown += other.unknown;
        self.replayed += other.replayed;
        self.refused += other.refused;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, keys, twice, overlapping, unknown, replayed, refused } = self;
        write!(f, "{faults} times, {keys} keys executed, {twice} twice, {overlapping} of these within a lease, ")?;
        write!(f, "{unknown} unknown, {replayed} replays, {refused} refusals")
    }
}
