//! Random histories of truly concurrent calls, judged by [`decide`](crate::decide).
//!
//! A history is a plan of rounds, made from a seed. Within a round 3 to 5 callers each send one verb
//! at the same instant, over two handles; between rounds the clock may move. What came back must be
//! explained, record by record, by calling the verbs in some order that respects which call returned
//! before which was sent (linearizability), on the model in `model.rs`. After each round every record
//! is read, and must read as one of the explanations says.
//!
//! A failing plan is shrunk before it is reported. Seeds fix the plan; how the callers interleave is
//! up to the machine, so a rare failure may need its command more than once.

use std::{env, fmt, sync::Arc};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

mod call;
mod judge;
mod model;
mod plan;
mod play;
mod report;
mod tally;

pub use self::tally::Tally;
use self::{plan::Plan, play::Stage};
use super::Harness;

/// How many histories [`histories`] plays unless `ONCEGATE_HISTORIES` says otherwise.
const HISTORIES: u64 = 300;
/// How many smaller plans are tried for a failing one.
const SHRINKS_MAX: usize = 400;
/// How often a smaller plan is played before it is taken for good.
const PLAYS_PER_SHRINK: usize = 4;

/// A history that no order of its calls explains.
#[derive(Clone, thiserror::Error)]
#[error("{report}")]
pub struct Counterexample {
    /// What [`search`] was given, moved on to this history.
    pub seed: u64,
    report: String,
}

/// Plays random histories. `ONCEGATE_HISTORIES=N` says how many (default 300), `ONCEGATE_SEED=S` with
/// which seed the first one is made (default 0); each further one counts up.
///
/// # Panics
/// When a history cannot be explained; the message shows it with the command that repeats it. Also when
/// the run was trivial: too few takeovers, replays, mismatches, stale writes and so on.
pub async fn histories<H: Harness>(harness: H) {
    histories_side_by_side([harness]).await;
}

/// Plays as many histories as [`histories`] does, divided among stores that share neither records nor a clock and that
/// are played on at the same time, so that a server under them is as busy as in earnest. Each history is played on one
/// of them, whole, so that its seed repeats it.
///
/// # Panics
/// As [`histories`]; also outside of a multi-thread runtime of tokio.
pub async fn histories_side_by_side<H: Harness>(harnesses: impl IntoIterator<Item = H>) {
    so_many_histories_side_by_side(HISTORIES, harnesses).await;
}

/// As [`histories_side_by_side`], with another default than 300: for what is played on another set-up in full.
///
/// # Panics
/// As [`histories_side_by_side`].
pub async fn so_many_histories_side_by_side<H: Harness>(default: u64, harnesses: impl IntoIterator<Item = H>) {
    let (count, first) = (from_environment("ONCEGATE_HISTORIES", default), from_environment("ONCEGATE_SEED", 0));
    let harnesses: Vec<_> = harnesses.into_iter().collect();
    let share = count.div_ceil(harnesses.len().max(1) as u64);
    let play = |(number, harness): (u64, H)| {
        let (begin, runtime) = (number * share, tokio::runtime::Handle::current());
        let (share, seed) = (share.min(count.saturating_sub(begin)), first.wrapping_add(begin));
        // On a thread of its own: judging takes as much time as playing, and a plan cannot change threads.
        tokio::task::spawn_blocking(move || runtime.block_on(search(share, seed, harness)))
    };
    let running: Vec<_> = (0..).zip(harnesses).map(play).collect();
    let stores = running.len();
    let mut tally = Tally::default();
    for played in running {
        match played.await.expect("a judge does not panic") {
            Ok(seen) => tally.merge(seen),
            Err(counterexample) => panic!("{counterexample}"),
        }
    }
    let missing = tally.missing(count);
    eprintln!("{count} histories from seed {first} on, on {stores} stores at once, are explained\n{tally}");
    assert!(missing.is_empty(), "the run was trivial: too few of {missing:?} in {count} histories");
}

/// Plays `count` histories from `seed` on, all on one store, and counts what was seen.
///
/// # Errors
/// The first history that cannot be explained.
pub async fn search<H: Harness>(count: u64, seed: u64, harness: H) -> Result<Tally, Box<Counterexample>> {
    let mut stage = Stage::open(Arc::new(harness)).await;
    let mut tally = Tally::default();
    for seed in (0..count).map(|number| seed.wrapping_add(number)) {
        let mut tree = plan::any().new_tree(&mut runner(seed)).expect("the strategy filters nothing");
        let history = stage.play(&tree.current()).await;
        match judge::explain(&history) {
            Ok(()) => tally.count(&history),
            Err(unexplained) => {
                let report = report::table(&history, &unexplained);
                let report = shrink(&mut stage, &mut tree).await.unwrap_or(report);
                return Err(Box::new(Counterexample { seed, report: format!("{report}{}", command(seed)) }));
            }
        }
    }
    Ok(tally)
}

/// The report of the smallest plan that still fails, if any smaller one does.
async fn shrink(stage: &mut Stage, tree: &mut impl ValueTree<Value = Plan>) -> Option<String> {
    let mut smallest = None;
    let mut is_smaller = tree.simplify();
    for _ in 0..SHRINKS_MAX {
        if !is_smaller {
            break;
        }
        is_smaller = match replay(stage, &tree.current()).await {
            Some(report) => {
                smallest = Some(report);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    smallest
}

async fn replay(stage: &mut Stage, plan: &Plan) -> Option<String> {
    for _ in 0..PLAYS_PER_SHRINK {
        let history = stage.play(plan).await;
        if let Err(unexplained) = judge::explain(&history) {
            return Some(report::table(&history, &unexplained));
        }
    }
    None
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// How to play this history again, as well as it can be known here.
fn command(seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "oncegate-core".to_owned());
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main" && !name.starts_with("tokio-")).unwrap_or("");
    format!("again: ONCEGATE_SEED={seed} ONCEGATE_HISTORIES=1 cargo test -p {package} --all-features {test}")
}

fn from_environment(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}: a whole number is allowed")),
        Err(_) => default,
    }
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
