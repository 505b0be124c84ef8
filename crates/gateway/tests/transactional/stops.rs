//! Workers that stand still past their leases, as under SIGSTOP, a paused virtual machine or a long collection of garbage.

use std::thread;

use crate::{
    client::{conclude, pay, pay_misbehaving},
    place::{Place, counter},
    workers::Workers,
};

/// Stopped at a time: each holds a connection to the database.
const AT_A_TIME: usize = 20;

fn stops() -> usize {
    std::env::var("ONCEGATE_STOPS").map_or(10, |stops| stops.parse().expect("ONCEGATE_STOPS is a number"))
}

#[test]
fn a_worker_that_is_stopped_past_its_lease_is_taken_over_and_fenced() {
    let mut place = Place::open();
    let gate = place.gate("upstream_timeout = \"3s\"\nlease = \"3s\"");
    // Those who take over have all the time that they need.
    let patient = place.gate("upstream_timeout = \"60s\"\nlease = \"60s\"");
    let keys: Vec<_> = (0..stops()).map(|number| format!("stopped-{number}")).collect();
    for keys in keys.chunks(AT_A_TIME) {
        thread::scope(|scope| {
            for key in keys {
                scope.spawn(|| pay_misbehaving(&gate.address, key, "stop before completing"));
            }
            let stopped = place.workers.wait_for_stops(keys.len());
            let repeats: Vec<_> = keys.iter().map(|key| scope.spawn(|| conclude(&patient.address, key))).collect();
            let answers: Vec<_> = repeats.into_iter().map(|repeat| repeat.join().unwrap()).collect();
            assert_eq!(place.workers.fenced_so_far(), 0, "all of them were taken over during their stop");
            stopped.values().for_each(|process| Workers::go_on(*process));
            let mut fenced = place.workers.wait_for_fenced(keys.len());
            fenced.sort_unstable();
            let mut expected = keys.to_vec();
            expected.sort_unstable();
            assert_eq!(fenced, expected, "each of them raised OG001");
            for (key, answer) in keys.iter().zip(answers) {
                let repeat = pay(&patient.address, key).unwrap();
                assert_eq!((answer.status, repeat.status, repeat.is_replay), (201, 201, true), "{key}");
                assert_eq!(repeat.body, answer.body, "{key}");
            }
        });
    }
    let second = place.query("SELECT count(*) FROM oncegate.records WHERE attempt = 2 AND state = 'completed'");
    println!(
        "{} stops, {} OG001, {second} second attempts, payments|wrong keys {}",
        keys.len(),
        keys.len(),
        place.payments_and_wrong_keys()
    );
    assert_eq!(second, keys.len().to_string());
    assert_eq!(counter(&patient, "oncegate_takeovers_total"), u64::try_from(keys.len()).unwrap());
    assert_eq!(place.payments_and_wrong_keys(), format!("{}|0", keys.len()));
}

#[test]
fn a_worker_that_has_completed_and_not_committed_is_waited_for() {
    let mut place = Place::open();
    let gate = place.gate("upstream_timeout = \"1s\"\nlease = \"1s\"");
    thread::scope(|scope| {
        let first = scope.spawn(|| pay_misbehaving(&gate.address, "k", "stop before committing"));
        let stopped = place.workers.wait_for_stops(1);
        let answer = first.join().unwrap().unwrap();
        assert_eq!(answer.problem.as_deref(), Some("upstream-timeout"), "{answer:?}");
        place.wait_until("bool_and(lease_until < clock_timestamp()) FROM oncegate.records");
        let repeat = pay(&gate.address, "k").unwrap();
        assert_eq!(repeat.problem.as_deref(), Some("in-flight"), "it may commit yet: {repeat:?}");
        stopped.values().for_each(|process| Workers::go_on(*process));
        let repeat = conclude(&gate.address, "k");
        assert_eq!((repeat.status, repeat.is_replay), (201, true));
    });
    assert_eq!(counter(&gate, "oncegate_takeovers_total"), 0);
    assert_eq!(place.payments_and_wrong_keys(), "1|0");
}

#[test]
fn after_the_last_attempt_nobody_executes_and_its_worker_may_still_commit() {
    let mut place = Place::open();
    let gate = place.gate("upstream_timeout = \"1s\"\nlease = \"1s\"\nmax_attempts = 2");
    let ended = "bool_and(lease_until < clock_timestamp()) FROM oncegate.records";
    let mut stopped = Vec::new();
    for attempt in ["1", "2"] {
        thread::scope(|scope| {
            let answer = scope.spawn(|| pay_misbehaving(&gate.address, "k", "stop before completing"));
            stopped.extend(place.workers.wait_for_stops(1).into_values());
            assert_eq!(answer.join().unwrap().unwrap().problem.as_deref(), Some("upstream-timeout"));
        });
        assert_eq!(place.query("SELECT attempt FROM oncegate.records"), attempt);
        place.wait_until(ended);
    }
    let repeat = pay(&gate.address, "k").unwrap();
    assert_eq!((repeat.status, repeat.problem.as_deref()), (409, Some("unknown")), "{repeat:?}");
    let [zombie, last] = stopped[..] else { panic!("two were stopped") };
    Workers::go_on(zombie);
    assert_eq!(place.workers.wait_for_fenced(1), ["k"]);
    assert_eq!(place.payments("k"), "0");
    Workers::go_on(last);
    place.wait_until("bool_and(state = 'completed') FROM oncegate.records");
    let repeat = pay(&gate.address, "k").unwrap();
    assert_eq!((repeat.status, repeat.is_replay), (201, true), "late is not stale");
    assert_eq!(place.payments_and_wrong_keys(), "1|0");
}
