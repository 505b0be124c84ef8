use super::*;
use crate::bench::gateway::{
    round::{Beside, Busy, Unhurried},
    wrk::Seen,
};

/// A row of `requests` within a second, for which the proxy worked `micros` microseconds each.
fn row(between: Between, requests: u64, micros: u64) -> (Between, Measured) {
    let forwarded = if between.forwards() { requests + 3 } else { 0 };
    let cpu = |micros: u64| Duration::from_micros(micros * requests);
    let measured = Measured {
        seen: Seen::sample(requests),
        proxy_cpu: cpu(micros),
        upstream_cpu: cpu(5),
        wrk_cpu: cpu(4),
        postgres_cpu: cpu(80),
        redis_cpu: cpu(10),
        forwarded,
    };
    (between, measured)
}

fn round(passing_micros: u32) -> Round {
    let rows = vec![
        row(Between::Nginx, 20_000, 20),
        row(Between::Bare, 10_000, 40),
        row(Between::Passing, 10_000, passing_micros.into()),
        row(Between::Unique, 7_000, 90),
        row(Between::Memory, 11_000, 30),
        row(Between::Fresh, 6_000, 60),
        row(Between::Postgres, 3_000, 90),
        row(Between::PostgresFresh, 5_000, 60),
        row(Between::Tiered, 4_000, 90),
        row(Between::Outbox, 5_000, 90),
    ];
    let beside = Beside { bare: 40.0, passing: f64::from(passing_micros) };
    let busy = Busy { direct: 100, authoritative: 1_100, outbox: 600 };
    Round { rows, beside, unhurried: Unhurried { direct: 100, passing: 250, unique: 1_600 }, busy }
}

fn report(rounds: impl IntoIterator<Item = Round>) -> Report {
    let mut report = Report::new(1, Duration::from_millis(1));
    for round in rounds {
        report.add(round);
    }
    report
}

#[test]
fn ratios_are_medians_of_rounds_and_are_judged() {
    // One round in which the machine did something else does not count.
    let report = report([round(44), round(400), round(45)]);
    let verdicts: Vec<_> =
        report.targets().into_iter().map(|target| (target.measured, target.bound.is_met(target.measured))).collect();
    let expected = [
        (45.0 / 40.0, true),
        (0.5, false),
        (0.7, true),
        (1.1, false),
        (0.6, true),
        (0.3, false),
        (0.5, true),
        (0.4, true),
        (1.25, true),
        (0.5, true),
        // Two commits of a millisecond together and 300 µs are allowed.
        (1_500.0, false),
        (150.0, true),
    ];
    assert_eq!(verdicts, expected);
    assert!(report.is_sound());
    assert_eq!(report.json()["targets"][0]["is_met"], true);
    assert_eq!(report.json()["rows"][2]["cpu_micros_per_request"]["proxy"], 45.0);
    assert!(Target::table(&report.targets()).to_string().contains("not met (stretch)"));
}

#[test]
fn a_run_that_did_something_else_is_a_fault() {
    let broken = |change: fn(&mut Measured, &mut Measured)| {
        let mut round = round(44);
        let [_, _, _, unique, memory, ..] = &mut round.rows[..] else { unreachable!("there are eight rows") };
        change(&mut unique.1, &mut memory.1);
        report([round]).faults()
    };
    assert!(broken(|_, _| ()).is_empty());
    let fault = "round 1, gate, unique keys, SQLite: of 7000 requests 6999 reached the upstream";
    assert_eq!(broken(|unique, _| unique.forwarded = 6_999), [fault]);
    let fault = "round 1, gate, replays from memory: of 11000 requests 1 reached the upstream";
    assert_eq!(broken(|_, memory| memory.forwarded = 1), [fault]);
    let fault = "round 1, gate, unique keys, SQLite: of 7000 requests 2 were no success and 1 broke";
    assert_eq!(broken(|unique, _| (unique.seen.not_2xx, unique.seen.broken) = (2, 1)), [fault]);
    assert_eq!(broken(|_, memory| memory.seen.requests = 0).len(), 1);
}
