use std::time::Instant;

use super::*;
use crate::storm::template::NumberedKey;

fn attempt(ending: Ending) -> Attempt {
    Attempt { ending, sent_at: Some(Instant::now()), is_late: false }
}

fn answered(status: u16, body: &str) -> Attempt {
    attempt(Ending::Answered(Answer {
        status: StatusCode::from_u16(status).unwrap(),
        is_replayed: false,
        retry_after: None,
        body: BodyDigest::of(body.as_bytes()),
        latency: Duration::from_millis(1),
    }))
}

fn replayed(status: u16, body: &str) -> Attempt {
    let mut attempt = answered(status, body);
    if let Ending::Answered(answer) = &mut attempt.ending {
        answer.is_replayed = true;
    }
    attempt
}

fn row(waves: Vec<Vec<Attempt>>, counted: Option<u64>) -> Row {
    Row::of(&Stormed { key: NumberedKey::fresh(1), waves, counted })
}

fn executions(attempts: Vec<Attempt>) -> Option<u64> {
    row(vec![attempts], None).executions
}

fn conflicts(attempts: Vec<Attempt>) -> u64 {
    row(vec![attempts], None).tally.conflicting_replays
}

#[test]
fn the_count_decides_over_the_answers() {
    let attempts = || vec![vec![answered(201, "a"), answered(201, "a")]];

    assert_eq!(row(attempts(), Some(2)).executions, Some(2));
    assert_eq!(row(attempts(), Some(0)).executions, Some(0));
    assert_eq!(row(attempts(), None).executions, Some(1));
}

#[test]
fn each_distinct_first_hand_success_is_one_execution() {
    assert_eq!(executions(vec![answered(201, "a"), answered(200, "a"), answered(409, "b")]), Some(1));
    assert_eq!(executions(vec![answered(201, "a"), answered(201, "b"), answered(500, "c")]), Some(2));
    assert_eq!(executions(vec![answered(201, "a"), replayed(201, "b")]), Some(1));
    assert_eq!(executions(vec![answered(400, "a"), answered(400, "b")]), Some(0));
}

#[test]
fn any_success_means_at_least_one_execution() {
    assert_eq!(executions(vec![replayed(201, "a"), attempt(Ending::HungUp)]), Some(1));
}

#[test]
fn without_a_success_an_answer_that_nobody_saw_leaves_the_executions_open() {
    assert_eq!(executions(vec![answered(409, ""), attempt(Ending::HungUp)]), None);
    assert_eq!(executions(vec![answered(409, ""), attempt(Ending::Failed(String::new()))]), None);
    assert_eq!(executions(vec![answered(409, ""), answered(504, "")]), None);
    assert_eq!(executions(vec![answered(409, ""), attempt(Ending::NotConnected(String::new()))]), Some(0));
}

#[test]
fn a_replay_must_have_the_status_and_the_body_of_the_first_answer() {
    assert_eq!(conflicts(vec![answered(201, "a"), replayed(201, "a"), replayed(201, "a")]), 0);
    assert_eq!(conflicts(vec![answered(201, "a"), replayed(201, "b"), replayed(200, "a")]), 2);
    assert_eq!(conflicts(vec![answered(402, "no"), replayed(402, "no")]), 0);
}

#[test]
fn being_told_to_come_back_is_no_first_answer() {
    for status in [409, 425, 429, 502, 503, 504] {
        assert_eq!(conflicts(vec![answered(status, "later"), replayed(201, "a"), replayed(201, "a")]), 0, "{status}");
    }
}

#[test]
fn replays_of_an_answer_that_nobody_saw_must_agree() {
    assert_eq!(conflicts(vec![replayed(201, "a"), replayed(201, "a"), replayed(201, "b")]), 1);
}

#[test]
fn every_request_is_in_one_class() {
    let tally = row(
        vec![vec![
            answered(200, ""),
            replayed(409, ""),
            answered(409, ""),
            answered(422, ""),
            answered(404, ""),
            answered(500, ""),
            answered(301, ""),
            attempt(Ending::HungUp),
            attempt(Ending::NotConnected("refused".to_owned())),
            attempt(Ending::Failed("cut".to_owned())),
        ]],
        None,
    )
    .tally;

    let classes = [tally.status_2xx, tally.replayed, tally.status_409, tally.status_422, tally.other_4xx];
    assert_eq!(classes, [1; 5]);
    assert_eq!([tally.status_5xx, tally.other, tally.hung_up, tally.not_connected, tally.failed], [1; 5]);
    assert_eq!(tally.requests, 10);
    assert_eq!(tally.statuses[&409], 2);
    assert_eq!(tally.failures, BTreeMap::from([("refused".to_owned(), 1), ("cut".to_owned(), 1)]));
}

#[test]
fn only_repeats_that_were_sent_in_time_raced() {
    let late = Attempt { is_late: true, ..answered(409, "") };
    let not_sent = Attempt { sent_at: None, is_late: true, ending: Ending::NotConnected(String::new()) };

    let tally = row(vec![vec![answered(201, ""), late, not_sent], vec![answered(201, "")]], None).tally;

    assert_eq!((tally.raced, tally.late, tally.retries), (1, 1, 1));
}

#[test]
fn totals_are_the_sums_of_the_rows() {
    let one = row(vec![vec![answered(201, "a"), answered(409, "")]], None).tally;
    let two = row(vec![vec![replayed(201, "a"), attempt(Ending::Failed("cut".to_owned()))]], None).tally;

    let mut totals = Tally::default();
    totals += &one;
    totals += &two;

    assert_eq!((totals.requests, totals.raced), (4, 4));
    assert_eq!((totals.status_2xx, totals.replayed, totals.status_409, totals.failed), (1, 1, 1, 1));
    assert_eq!(totals.statuses, BTreeMap::from([(201, 2), (409, 1)]));
    assert_eq!(totals.spread_ms, one.spread_ms.max(two.spread_ms));
}

#[test]
fn who_got_no_conclusive_answer_is_undecided() {
    let waves = vec![
        vec![answered(201, "a"), answered(409, ""), answered(503, ""), attempt(Ending::HungUp)],
        vec![replayed(201, "a"), answered(409, ""), replayed(409, "")],
    ];

    assert_eq!(row(waves, None).tally.undecided, 1);
}
