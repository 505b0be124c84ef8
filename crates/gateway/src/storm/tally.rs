//! The tally: what the answers to one key say. Pure; nothing here waits or sends.

use std::collections::{BTreeMap, HashSet};
use std::ops::AddAssign;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use super::burst::{Attempt, Ending};
use super::connection::{Answer, BodyDigest};
use super::lane::Stormed;

/// One row of the report: a key, how often it was executed, and its answers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) key: String,
    /// `None` when the answers cannot tell.
    pub(super) executions: Option<u64>,
    #[serde(flatten)]
    pub(super) tally: Tally,
}

/// Answers by class, of one key or of all. Each request is in exactly one of the classes from `status_2xx` to `failed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Tally {
    pub(super) requests: u64,
    /// Repeats that took part in the race: connected in time and sent.
    pub(super) raced: u64,
    /// Repeats of the first burst that were sent after it, since their connection was not open in time.
    pub(super) late: u64,
    /// Requests after the first burst.
    pub(super) retries: u64,
    /// 2xx without the replay header.
    pub(super) status_2xx: u64,
    /// Answers with the replay header, whatever their status.
    pub(super) replayed: u64,
    pub(super) status_409: u64,
    pub(super) status_422: u64,
    pub(super) other_4xx: u64,
    pub(super) status_5xx: u64,
    /// All other statuses, such as redirects.
    pub(super) other: u64,
    pub(super) hung_up: u64,
    pub(super) not_connected: u64,
    /// Sent, but not answered in time, or not whole.
    pub(super) failed: u64,
    /// Replays that differ from the answer that they should repeat; counted in `replayed` too.
    pub(super) conflicting_replays: u64,
    /// Repeats whose last answer was not conclusive.
    pub(super) undecided: u64,
    /// How far apart the repeats of the race were sent, in milliseconds; of all keys, the widest.
    pub(super) spread_ms: f64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) failures: BTreeMap<String, u64>,
}

/// The classes of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerClass {
    Replayed,
    Status2xx,
    Status409,
    Status422,
    Other4xx,
    Status5xx,
    Other,
}

pub(super) fn class(answer: &Answer) -> AnswerClass {
    match answer.status.as_u16() {
        _ if answer.is_replayed => AnswerClass::Replayed,
        409 => AnswerClass::Status409,
        422 => AnswerClass::Status422,
        200..300 => AnswerClass::Status2xx,
        400..500 => AnswerClass::Other4xx,
        500..600 => AnswerClass::Status5xx,
        _ => AnswerClass::Other,
    }
}

/// Whether the client of this repeat knows what became of its request. One that got no answer, or was told to come back,
/// or heard from a proxy that lost the answer, does not.
pub(super) fn is_decided(attempt: &Attempt) -> bool {
    match &attempt.ending {
        Ending::Answered(answer) => is_conclusive(answer),
        Ending::HungUp | Ending::NotConnected(_) | Ending::Failed(_) => false,
    }
}

/// Whether the server may still be executing although nobody waits for it: the count has to settle.
pub(super) fn may_still_execute(attempt: &Attempt) -> bool {
    match &attempt.ending {
        Ending::Answered(answer) => matches!(answer.status.as_u16(), 502 | 504),
        Ending::HungUp | Ending::Failed(_) => true,
        Ending::NotConnected(_) => false,
    }
}

fn is_conclusive(answer: &Answer) -> bool {
    answer.is_replayed || !matches!(answer.status.as_u16(), 409 | 425 | 429 | 502 | 503 | 504)
}

// === impl Row ===

impl Row {
    pub(super) fn of(stormed: &Stormed) -> Self {
        let attempts: Vec<&Attempt> = stormed.waves.iter().flatten().collect();
        Self {
            number: stormed.key.number,
            key: stormed.key.key.clone(),
            executions: stormed.counted.or_else(|| executions_by_answers(&attempts)),
            tally: Tally::of(&stormed.waves),
        }
    }
}

/// How often the key was executed as far as the answers tell: each distinct body of a first-hand success is one effect.
/// Effects that were answered alike, or not at all, are not seen, so this is a lower bound. `None` when nobody succeeded
/// and somebody got no answer.
fn executions_by_answers(attempts: &[&Attempt]) -> Option<u64> {
    let succeeded =
        || attempts.iter().filter_map(|attempt| attempt.answer()).filter(|answer| answer.status.is_success());
    let first_hand: HashSet<BodyDigest> =
        succeeded().filter(|answer| !answer.is_replayed).map(|answer| answer.body).collect();
    match first_hand.len() as u64 {
        0 if succeeded().next().is_some() => Some(1),
        0 if attempts.iter().any(|attempt| may_still_execute(attempt)) => None,
        distinct => Some(distinct),
    }
}

/// How many replays repeat none of the conclusive first-hand answers, or, where nobody saw one, not the first replay.
fn conflicting_replays(attempts: &[&Attempt]) -> u64 {
    let answers = || attempts.iter().filter_map(|attempt| attempt.answer());
    let replays = || answers().filter(|answer| answer.is_replayed).map(content);
    let mut originals: HashSet<(StatusCode, BodyDigest)> =
        answers().filter(|answer| !answer.is_replayed && is_conclusive(answer)).map(content).collect();
    if originals.is_empty() {
        originals.extend(replays().next());
    }
    replays().filter(|replay| !originals.contains(replay)).count() as u64
}

fn content(answer: &Answer) -> (StatusCode, BodyDigest) {
    (answer.status, answer.body)
}

// === impl Tally ===

impl Tally {
    fn of(waves: &[Vec<Attempt>]) -> Self {
        let mut tally = Self::default();
        for attempt in waves.iter().flatten() {
            tally.add(attempt);
        }
        let attempts: Vec<&Attempt> = waves.iter().flatten().collect();
        tally.conflicting_replays = conflicting_replays(&attempts);
        if let Some(last) = waves.last() {
            tally.undecided = last.iter().filter(|attempt| !is_decided(attempt)).count() as u64;
        }
        if let Some(first) = waves.first() {
            tally.retries = tally.requests - first.len() as u64;
            tally.late = first.iter().filter(|attempt| attempt.is_late && attempt.sent_at.is_some()).count() as u64;
            let starts = || first.iter().filter(|attempt| !attempt.is_late).filter_map(|attempt| attempt.sent_at);
            tally.raced = starts().count() as u64;
            let spread = starts().max().zip(starts().min()).map(|(last, first)| last - first);
            tally.spread_ms = (spread.unwrap_or_default().as_micros() as f64) / 1000.0;
        }
        tally
    }

    fn add(&mut self, attempt: &Attempt) {
        self.requests += 1;
        let counter = match &attempt.ending {
            Ending::Answered(answer) => {
                *self.statuses.entry(answer.status.as_u16()).or_default() += 1;
                match class(answer) {
                    AnswerClass::Replayed => &mut self.replayed,
                    AnswerClass::Status2xx => &mut self.status_2xx,
                    AnswerClass::Status409 => &mut self.status_409,
                    AnswerClass::Status422 => &mut self.status_422,
                    AnswerClass::Other4xx => &mut self.other_4xx,
                    AnswerClass::Status5xx => &mut self.status_5xx,
                    AnswerClass::Other => &mut self.other,
                }
            }
            Ending::HungUp => &mut self.hung_up,
            Ending::NotConnected(failure) => {
                *self.failures.entry(failure.clone()).or_default() += 1;
                &mut self.not_connected
            }
            Ending::Failed(failure) => {
                *self.failures.entry(failure.clone()).or_default() += 1;
                &mut self.failed
            }
        };
        *counter += 1;
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.raced += other.raced;
        self.late += other.late;
        self.retries += other.retries;
        self.status_2xx += other.status_2xx;
        self.replayed += other.replayed;
        self.status_409 += other.status_409;
        self.status_422 += other.status_422;
        self.other_4xx += other.other_4xx;
        self.status_5xx += other.status_5xx;
        self.other += other.other;
        self.hung_up += other.hung_up;
        self.not_connected += other.not_connected;
        self.failed += other.failed;
        self.conflicting_replays += other.conflicting_replays;
        self.undecided += other.undecided;
        self.spread_ms = self.spread_ms.max(other.spread_ms);
        for (status, answers) in &other.statuses {
            *self.statuses.entry(*status).or_default() += answers;
        }
        for (failure, requests) in &other.failures {
            *self.failures.entry(failure.clone()).or_default() += requests;
        }
    }
}

// === impl Attempt ===

impl Attempt {
    pub(super) fn answer(&self) -> Option<&Answer> {
        match &self.ending {
            Ending::Answered(answer) => Some(answer),
            Ending::HungUp | Ending::NotConnected(_) | Ending::Failed(_) => None,
        }
    }

    /// What the answer asks its client to wait before it comes back.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.answer()?.retry_after
    }
}

#[cfg(test)]
mod tests;
