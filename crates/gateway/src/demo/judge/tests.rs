use super::*;

/// The lines that are not true, counted from 0.
fn false_lines(shown: &Shown) -> Vec<usize> {
    judge(shown).iter().enumerate().filter(|(_, line)| !line.is_true).map(|(index, _)| index).collect()
}

#[test]
fn a_run_in_which_all_is_well_is_true() {
    assert!(false_lines(&Shown::when_all_is_well()).is_empty());
}

#[test]
fn the_rest_of_a_burst_may_be_replays_of_the_first_answer() {
    let mut shown = Shown::when_all_is_well();
    (shown.gate.in_flight, shown.gate.replayed) = (9, 40);
    assert!(false_lines(&shown).is_empty());
}

/// Makes one number false.
type Lie = fn(&mut Shown);

#[test]
fn every_false_number_marks_its_line() {
    let lies: [(usize, Lie); 26] = [
        (0, |shown| shown.straight.executed = 49),
        (0, |shown| (shown.straight.payments, shown.total_payments) = (49, 51)),
        (0, |shown| shown.straight = Burst { requests: 1, executed: 1, payments: 50, ..shown.straight.clone() }),
        (1, |shown| (shown.gate.payments, shown.total_payments) = (2, 53)),
        (1, |shown| (shown.gate.payments, shown.total_payments) = (0, 51)),
        (1, |shown| shown.gate.executed = 0),
        (1, |shown| (shown.gate.executed, shown.gate.in_flight) = (2, 48)),
        (1, |shown| (shown.gate.in_flight, shown.gate.replayed_differently) = (48, 1)),
        (1, |shown| (shown.gate.in_flight, shown.gate.other) = (48, 1)),
        (1, |shown| (shown.gate.requests, shown.gate.in_flight) = (1, 0)),
        (2, |shown| shown.restart.status = 200),
        (2, |shown| shown.restart.replayed = false),
        (2, |shown| shown.restart.same_answer = false),
        (2, |shown| shown.restart.payments = 2),
        (3, |shown| shown.mismatch.status = 409),
        (3, |shown| shown.mismatch.problem = Some("in-flight".to_owned())),
        (3, |shown| shown.mismatch.payments = 2),
        (4, |shown| shown.unknown.lost.status = 504),
        (4, |shown| shown.unknown.lost.problem = Some("upstream-unreachable".to_owned())),
        (4, |shown| shown.unknown.lost.payments = 0),
        (5, |shown| shown.unknown.repeat.problem = Some("in-flight".to_owned())),
        (5, |shown| shown.unknown.repeat.payments = 2),
        (6, |shown| shown.unknown.resolved.status = 409),
        (6, |shown| shown.unknown.resolved.same_answer = false),
        (6, |shown| (shown.unknown.resolved.payments, shown.total_payments) = (2, 53)),
        (7, |shown| shown.total_payments = 53),
    ];
    for (number, (line, lie)) in lies.into_iter().enumerate() {
        let mut shown = Shown::when_all_is_well();
        lie(&mut shown);
        assert_eq!(false_lines(&shown), [line], "lie {number}");
    }
}
