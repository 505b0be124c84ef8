//! Whether what was shown is true. Pure.

use super::shown::{Burst, Repeat, Shown};

/// One thing that is shown.
#[derive(Debug)]
pub(super) struct Line {
    /// The number of the scene, on its first line.
    pub(super) number: Option<u8>,
    pub(super) what: String,
    pub(super) answers: String,
    /// As the service counted them for the key until then.
    pub(super) payments: String,
    pub(super) is_true: bool,
    /// What must be so.
    pub(super) expected: String,
}

/// Judges every line.
pub(super) fn judge(shown: &Shown) -> Vec<Line> {
    let unknown = &shown.unknown;
    vec![
        straight(&shown.straight),
        gate(&shown.gate),
        replay(Some(3), "the gate dies (kill -9) and starts again; then a repeat", &shown.restart),
        problem(Some(4), "the same key, another amount", &shown.mismatch, (422, "mismatch")),
        Line {
            // The first of its key.
            payments: unknown.lost.payments.to_string(),
            ..problem(Some(5), "the service charges, hangs up", &unknown.lost, (502, "upstream-failed"))
        },
        problem(None, "then a repeat", &unknown.repeat, (409, "unknown")),
        replay(None, "an operator resolves; a repeat", &unknown.resolved),
        total(shown),
    ]
}

fn straight(burst: &Burst) -> Line {
    Line {
        number: Some(1),
        what: format!("{} repeats at the same instant, straight to the service", burst.requests),
        answers: answers(burst),
        payments: burst.payments.to_string(),
        is_true: burst.requests > 1 && burst.executed == burst.requests && burst.payments == burst.requests,
        expected: format!("{} × 201, as many payments", burst.requests),
    }
}

fn gate(burst: &Burst) -> Line {
    let harmless = burst.executed + burst.in_flight + burst.replayed;
    Line {
        number: Some(2),
        what: format!("{} repeats at the same instant, through the gate", burst.requests),
        answers: answers(burst),
        payments: burst.payments.to_string(),
        is_true: burst.requests > 1 && burst.executed == 1 && harmless == burst.requests && burst.payments == 1,
        expected: "1 × 201, the rest 409 or its replay, 1 payment".to_owned(),
    }
}

/// A repeat that must get the stored answer.
fn replay(number: Option<u8>, what: &str, repeat: &Repeat) -> Line {
    let answers = match (repeat.status, repeat.same_answer) {
        (201, true) if number.is_some() => "201, the first answer".to_owned(),
        (201, true) => "201, as resolved".to_owned(),
        (status, _) => other_answer(status, repeat),
    };
    Line {
        number,
        what: what.to_owned(),
        answers,
        payments: format!("still {}", repeat.payments),
        is_true: repeat.status == 201 && repeat.replayed && repeat.same_answer && repeat.payments == 1,
        expected: "201, a replay, still 1 payment".to_owned(),
    }
}

/// A request that must get a problem.
fn problem(number: Option<u8>, what: &str, repeat: &Repeat, (status, name): (u16, &str)) -> Line {
    Line {
        number,
        what: what.to_owned(),
        answers: other_answer(repeat.status, repeat),
        payments: format!("still {}", repeat.payments),
        is_true: repeat.status == status && repeat.problem.as_deref() == Some(name) && repeat.payments == 1,
        expected: format!("{status} {}, 1 payment", words(name)),
    }
}

/// Also finds what was charged under no key, or under one that nobody looked at.
fn total(shown: &Shown) -> Line {
    let expected = shown.straight.payments + shown.gate.payments + shown.unknown.resolved.payments;
    Line {
        number: None,
        what: "all payments of this run".to_owned(),
        answers: String::new(),
        payments: shown.total_payments.to_string(),
        is_true: shown.total_payments == expected,
        expected: format!("{expected}, the sum of the above"),
    }
}

fn answers(burst: &Burst) -> String {
    let kinds = [
        (burst.executed, "201"),
        (burst.in_flight, "409 in flight"),
        (burst.replayed, "201 replay"),
        (burst.replayed_differently, "another replay"),
        (burst.other, "something else"),
    ];
    let given = kinds.iter().filter(|(count, _)| *count > 0);
    given.map(|(count, kind)| format!("{count} × {kind}")).collect::<Vec<_>>().join("\n")
}

fn other_answer(status: u16, repeat: &Repeat) -> String {
    match (&repeat.problem, repeat.replayed) {
        (Some(problem), _) => format!("{status} {}", words(problem)),
        (None, true) => format!("{status} another replay"),
        (None, false) => format!("{status} executed"),
    }
}

fn words(problem: &str) -> String {
    problem.replace('-', " ")
}

#[cfg(test)]
mod tests;
