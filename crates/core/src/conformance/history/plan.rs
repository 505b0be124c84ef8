//! What a history will try, before any store was asked: small, seeded, shrinkable.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::super::trial::{LEASE, MOMENT, RETENTION, STATES};
use crate::{Backend, StateName};

// === types ===

/// Rounds in order. The first steps of a plan's enums are the simplest: shrinking moves towards them.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// How many records it plays with.
    pub(super) keys: usize,
    /// What the backend behind all of them guarantees, unless a claim is contrary.
    pub(super) backend: Backend,
    pub(super) rounds: Vec<Round>,
}

/// The clock moves by `pause`; then each caller does its step, all at once.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) pause: Duration,
    pub(super) steps: Vec<Step>,
}

/// What one caller does in a round.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Idle,
    Claim { key: usize, asking: Asking },
    Complete { lease: Pick, status: u16 },
    Release { lease: Pick },
    Withdraw { lease: Pick },
    Extend { lease: Pick, length: Duration },
    Doubt { lease: Pick },
    Resolve { lease: Pick, state: StateName, status: u16 },
    Purge { lease: Pick, state: StateName, force: bool },
    Get { key: usize },
    Reap,
}

/// How a claim is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asking {
    /// The request that every caller of this key repeats, with a fresh owner.
    Repeat,
    /// The claim that got the newest lease once more, with the same owner.
    Again,
    /// Without an owner.
    Ownerless,
    /// With another body.
    OtherBody,
    /// Fingerprinted under other rules.
    OtherRules,
    /// Before a backend of the other kind.
    Contrary,
}

/// A lease that was seen in an earlier round; a made-up one where there was none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pick {
    pub(super) key: usize,
    /// 0 is the newest one of its key.
    pub(super) back: usize,
    pub(super) bearer: Bearer,
}

/// Who brings a lease.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bearer {
    /// Who acquired it.
    Owner,
    /// A backend that was told record and fence.
    Ownerless,
    /// Somebody with an owner token of its own.
    Stranger,
}

// === strategies ===

/// Any plan of at most 40 operations.
pub(super) fn any() -> impl Strategy<Value = Plan> {
    let backend = prop_oneof![Just(Backend::Idempotent), Just(Backend::Plain), Just(Backend::Transactional)];
    (1..=3_usize, backend, vec(round(), 4..=8)).prop_map(|(keys, backend, rounds)| Plan { keys, backend, rounds })
}

fn round() -> impl Strategy<Value = Round> {
    let pause = prop_oneof![
        10 => Just(Duration::ZERO),
        5 => Just(MOMENT),
        8 => Just(LEASE + MOMENT / 2),
        // Longer than the lease of a first takeover.
        3 => Just(LEASE * 2 + MOMENT / 2),
        // To the very instant at which a lease ends.
        2 => Just(LEASE),
        1 => Just(RETENTION + MOMENT),
    ];
    (pause, vec(step(), 3..=5)).prop_map(|(pause, steps)| Round { pause, steps })
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..3_usize;
    let length = prop_oneof![Just(LEASE), Just(MOMENT / 2), Just(LEASE * 3)];
    let (state, status) = (proptest::sample::select(&STATES[..]), 200..230_u16);
    prop_oneof![
        1 => Just(Step::Idle),
        28 => (key.clone(), asking()).prop_map(|(key, asking)| Step::Claim { key, asking }),
        12 => (pick(), status.clone()).prop_map(|(lease, status)| Step::Complete { lease, status }),
        6 => pick().prop_map(|lease| Step::Release { lease }),
        5 => pick().prop_map(|lease| Step::Withdraw { lease }),
        8 => (pick(), length).prop_map(|(lease, length)| Step::Extend { lease, length }),
        5 => pick().prop_map(|lease| Step::Doubt { lease }),
        5 => (pick(), state.clone(), status).prop_map(|(lease, state, status)| Step::Resolve { lease, state, status }),
        5 => (pick(), state, any_bool()).prop_map(|(lease, state, force)| Step::Purge { lease, state, force }),
        3 => key.prop_map(|key| Step::Get { key }),
        4 => Just(Step::Reap),
    ]
}

fn asking() -> impl Strategy<Value = Asking> {
    prop_oneof![
        20 => Just(Asking::Repeat),
        5 => Just(Asking::Again),
        2 => Just(Asking::Ownerless),
        3 => Just(Asking::OtherBody),
        1 => Just(Asking::OtherRules),
        3 => Just(Asking::Contrary),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    let back = prop_oneof![6 => Just(0_usize), 2 => Just(1), 1 => Just(2)];
    let bearer = prop_oneof![6 => Just(Bearer::Owner), 2 => Just(Bearer::Ownerless), 1 => Just(Bearer::Stranger)];
    (0..3_usize, back, bearer).prop_map(|(key, back, bearer)| Pick { key, back, bearer })
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}
