//! What the scenes showed: numbers, not yet judged. The JSON of `--json` has them under these names.

use serde::Serialize;

use super::client::Answer;

/// All scenes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    /// Repeats at the same instant, straight to the service.
    pub(super) straight: Burst,
    /// The same through the gate.
    pub(super) gate: Burst,
    /// A repeat after the gate was killed and started again.
    pub(super) restart: Repeat,
    /// The same key with another amount.
    pub(super) mismatch: Repeat,
    pub(super) unknown: Unknown,
    /// All payments that the service counted.
    pub(super) total_payments: u64,
}

/// Many requests at the same instant. Each is in one of the numbers from `executed` to `other`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Burst {
    pub(super) key: String,
    pub(super) requests: u64,
    /// 201 without the replay header.
    pub(super) executed: u64,
    /// 409 `in-flight`.
    pub(super) in_flight: u64,
    /// The first answer, replayed.
    pub(super) replayed: u64,
    /// A replay of something else.
    pub(super) replayed_differently: u64,
    pub(super) other: u64,
    /// How many payments the service counted for the key.
    pub(super) payments: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Repeat {
    pub(super) key: String,
    pub(super) status: u16,
    /// The problem's name, if the gate answered with one.
    pub(super) problem: Option<String>,
    pub(super) replayed: bool,
    /// Whether the body is the one that repeats must get: the first answer's, or the operator's.
    pub(super) same_answer: bool,
    /// How many payments the service counted for the key until then.
    pub(super) payments: u64,
}

/// An outcome that was lost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Unknown {
    /// The service charged and hung up.
    pub(super) lost: Repeat,
    pub(super) repeat: Repeat,
    /// A repeat after an operator resolved the record.
    pub(super) resolved: Repeat,
}

// === impl Burst ===

impl Burst {
    pub(super) fn of(key: &str, answers: &[Answer], payments: u64) -> Self {
        let mut burst = Self { key: key.to_owned(), payments, ..Self::default() };
        let first = answers.iter().find(|answer| is_executed(answer));
        for answer in answers {
            burst.requests += 1;
            *match () {
                () if is_executed(answer) => &mut burst.executed,
                () if answer.problem.as_deref() == Some("in-flight") && answer.status == 409 => &mut burst.in_flight,
                () if first.is_some_and(|first| is_replay_of(answer, first.status, &first.body)) => &mut burst.replayed,
                () if answer.is_replayed => &mut burst.replayed_differently,
                () => &mut burst.other,
            } += 1;
        }
        burst
    }
}

// === impl Repeat ===

impl Repeat {
    /// `expected` is the body that a replay must have.
    pub(super) fn of(key: &str, answer: &Answer, expected: &str, payments: u64) -> Self {
        Self {
            key: key.to_owned(),
            status: answer.status,
            problem: answer.problem.clone(),
            replayed: answer.is_replayed,
            same_answer: is_replay_of(answer, 201, expected),
            payments,
        }
    }
}

/// The answer that a burst executed, if there was one.
pub(super) fn executed(answers: &[Answer]) -> Option<&Answer> {
    answers.iter().find(|answer| is_executed(answer))
}

fn is_executed(answer: &Answer) -> bool {
    answer.status == 201 && !answer.is_replayed
}

fn is_replay_of(answer: &Answer, status: u16, body: &str) -> bool {
    answer.is_replayed && answer.status == status && answer.body == body
}

#[cfg(test)]
impl Shown {
    /// What the tests of judgement and report start from.
    pub(super) fn when_all_is_well() -> Self {
        let burst = |executed, in_flight| Burst {
            key: "k".to_owned(),
            requests: 50,
            executed,
            in_flight,
            payments: executed,
            ..Burst::default()
        };
        let problem = |status, name: &str| Repeat {
            key: "k".to_owned(),
            status,
            problem: Some(name.to_owned()),
            replayed: false,
            same_answer: false,
            payments: 1,
        };
        let replay = Repeat { problem: None, replayed: true, same_answer: true, ..problem(201, "") };
        Self {
            straight: burst(50, 0),
            gate: burst(1, 49),
            restart: replay.clone(),
            mismatch: problem(422, "mismatch"),
            unknown: Unknown {
                lost: problem(502, "upstream-failed"),
                repeat: problem(409, "unknown"),
                resolved: replay,
            },
            total_payments: 52,
        }
    }
}
