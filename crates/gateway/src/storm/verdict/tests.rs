use super::*;

fn row(executions: Option<u64>, change: impl FnOnce(&mut Tally)) -> Row {
    let mut tally = Tally { requests: 5, raced: 5, ..Tally::default() };
    change(&mut tally);
    Row { number: 1, key: "k".to_owned(), executions, tally }
}

fn verdict(rows: &[Row], stopped: Option<&str>) -> Verdict {
    let mut totals = Tally::default();
    for row in rows {
        totals += &row.tally;
    }
    let scale = Scale { keys: 3, concurrency: 5, is_counted: true, stopped: stopped.map(str::to_owned) };
    judge(rows, &totals, &scale)
}

#[test]
fn keys_that_were_executed_once_are_innocent() {
    let verdict = verdict(&[row(Some(1), |_| {}), row(Some(1), |_| {}), row(Some(1), |_| {})], None);

    assert_eq!(verdict.judgement, Judgement::Innocent);
    assert_eq!(verdict.line, "innocent: 3 keys x 5 repeats, each executed once");
}

#[test]
fn every_fault_is_named_the_worst_first() {
    let rows = [
        row(Some(0), |_| {}),
        row(Some(6), |tally| tally.status_5xx = 4),
        row(Some(2), |tally| tally.conflicting_replays = 9),
        row(None, |tally| tally.failed = 1),
    ];

    let verdict = verdict(&rows, None);

    assert_eq!(verdict.judgement, Judgement::Guilty);
    assert_eq!(
        verdict.line,
        "guilty: 2 of 4 keys executed more than once (worst: 6 executions); 1 of 4 keys were never executed; \
         1 of 4 keys were replayed with another answer; 1 of 4 keys could not be judged, \
         and 4 answers were 5xx, and 1 repeats got no complete answer"
    );
}

#[test]
fn without_a_race_one_execution_proves_nothing() {
    let alone = || row(Some(1), |tally| tally.raced = 1);

    assert_eq!(verdict(&[alone(), row(Some(1), |_| {})], None).judgement, Judgement::None);
    assert_eq!(verdict(&[row(Some(2), |tally| tally.raced = 1)], None).judgement, Judgement::Guilty);

    let scale = Scale { keys: 1, concurrency: 1, is_counted: true, stopped: None };
    assert_eq!(execution(&alone(), &scale), Execution::Once);
}

#[test]
fn a_storm_that_stopped_early_can_be_guilty_but_not_innocent() {
    let innocent = verdict(&[row(Some(1), |_| {})], Some("it broke"));
    assert_eq!(innocent.judgement, Judgement::None);
    assert_eq!(innocent.line, "no verdict: stopped after 1 of 3 keys: it broke");

    let guilty = verdict(&[row(Some(2), |_| {})], Some("it broke"));
    assert_eq!(guilty.judgement, Judgement::Guilty);
    assert!(guilty.line.ends_with("(worst: 2 executions); stopped after 1 of 3 keys: it broke"), "{}", guilty.line);
}

#[test]
fn what_a_never_executed_key_was_answered_is_told() {
    let verdict = verdict(&[row(Some(0), |tally| tally.statuses = [(401, 4), (429, 1)].into())], None);

    assert_eq!(verdict.line, "guilty: 1 of 1 keys were never executed, and 4 of 5 answers were 401");
}
