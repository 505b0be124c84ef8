//! The verdict: one line, and whether the API is guilty. Pure.

use serde::Serialize;

use super::tally::{Row, Tally};

/// What the rows amount to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) judgement: Judgement,
    /// The judgement for people, in one line.
    pub(super) line: String,
    #[serde(flatten)]
    pub(super) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judgement {
    /// Every key was executed once.
    Innocent,
    /// Some key was executed more than once, or never, or was replayed wrongly.
    Guilty,
    /// Nothing that was seen is wrong, but not every key could be judged.
    None,
}

/// How many keys are at fault, by fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Faults {
    pub(super) executed_more_than_once: u64,
    /// The most executions of one key.
    pub(super) worst: u64,
    pub(super) never_executed: u64,
    pub(super) replayed_differently: u64,
    pub(super) not_judged: u64,
}

/// What was planned, and how it was counted.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) keys: u32,
    pub(super) concurrency: u32,
    /// Whether effects were counted, rather than told from the answers.
    pub(super) is_counted: bool,
    /// Why the storm ended before the last key.
    pub(super) stopped: Option<String>,
}

/// What is wrong with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Execution {
    Once,
    Never,
    MoreThanOnce(u64),
    /// Nobody can tell, or there was no race: fewer than two repeats were sent at the same instant.
    NotJudged,
}

pub(super) fn execution(row: &Row, scale: &Scale) -> Execution {
    let is_race = row.tally.raced >= 2 || scale.concurrency == 1;
    match row.executions {
        None => Execution::NotJudged,
        Some(0) => Execution::Never,
        Some(1) if is_race => Execution::Once,
        Some(1) => Execution::NotJudged,
        Some(executions) => Execution::MoreThanOnce(executions),
    }
}

pub(super) fn judge(rows: &[Row], totals: &Tally, scale: &Scale) -> Verdict {
    let faults = Faults::of(rows, scale);
    let judgement = if faults.is_guilty() {
        Judgement::Guilty
    } else if faults.not_judged > 0 || scale.stopped.is_some() {
        Judgement::None
    } else {
        Judgement::Innocent
    };
    let finding = match judgement {
        Judgement::Innocent => {
            format!("innocent: {} keys x {} repeats, each executed once", scale.keys, scale.concurrency)
        }
        Judgement::Guilty => format!("guilty: {}", findings(&faults, rows.len(), scale)),
        Judgement::None => format!("no verdict: {}", findings(&faults, rows.len(), scale)),
    };
    let basis = match (judgement, scale.is_counted) {
        (Judgement::None, _) | (_, true) => "",
        (_, false) => " (by the answers alone; --count-url counts effects)",
    };
    let line = format!("{finding}{}{basis}", notes(&faults, totals));
    Verdict { judgement, line, faults }
}

/// What is wrong, the worst first.
fn findings(faults: &Faults, keys: usize, scale: &Scale) -> String {
    let mut findings = Vec::new();
    let mut find = |count: u64, text: &str| {
        if count > 0 {
            findings.push(format!("{count} of {keys} keys {text}"));
        }
    };
    find(faults.executed_more_than_once, &format!("executed more than once (worst: {} executions)", faults.worst));
    find(faults.never_executed, "were never executed");
    find(faults.replayed_differently, "were replayed with another answer");
    find(faults.not_judged, "could not be judged");
    if let Some(reason) = &scale.stopped {
        findings.push(format!("stopped after {keys} of {} keys: {reason}", scale.keys));
    }
    findings.join("; ")
}

/// What a reader must know beside the findings.
fn notes(faults: &Faults, totals: &Tally) -> String {
    let mut notes = String::new();
    let mut note = |requests: u64, text: &str| {
        if requests > 0 {
            notes.push_str(&format!(", and {requests} {text}"));
        }
    };
    note(totals.status_5xx, "answers were 5xx");
    note(totals.not_connected, "repeats could not connect");
    note(totals.failed, "repeats got no complete answer");
    if totals.retries > 0 {
        note(totals.undecided, "repeats never got a conclusive answer");
    }
    if faults.never_executed > 0
        && let Some((status, answers)) = totals.statuses.iter().max_by_key(|(_, answers)| **answers)
    {
        note(*answers, &format!("of {} answers were {status}", totals.statuses.values().sum::<u64>()));
    }
    notes
}

// === impl Faults ===

impl Faults {
    fn of(rows: &[Row], scale: &Scale) -> Self {
        let mut faults = Self::default();
        for row in rows {
            match execution(row, scale) {
                Execution::Once => {}
                Execution::Never => faults.never_executed += 1,
                Execution::NotJudged => faults.not_judged += 1,
                Execution::MoreThanOnce(executions) => {
                    faults.executed_more_than_once += 1;
                    faults.worst = faults.worst.max(executions);
                }
            }
            faults.replayed_differently += u64::from(row.tally.conflicting_replays > 0);
        }
        faults
    }

    fn is_guilty(&self) -> bool {
        self.executed_more_than_once + self.never_executed + self.replayed_differently > 0
    }
}

#[cfg(test)]
mod tests;
