use std::time::Duration;

use super::*;
use crate::bench::store::{load::Seen, row::Counted};

const SIZE: Size = Size { callers: 256, seconds: 1, rounds: 3 };

fn row(name: &str, cycles: u64) -> Row {
    let mut seen = Seen::none();
    (seen.cycles, seen.took) = (cycles, Duration::from_secs(1));
    seen.first.record(2_000).unwrap();
    seen.second.record(3_000).unwrap();
    let counters = Counted { commits: cycles / 50, wal_bytes: cycles * 900, had_checkpoint: true };
    let client_cpu = Duration::from_micros(20 * cycles);
    Row {
        name: name.to_owned(),
        callers: 256,
        seen,
        counted: cycles,
        client_cpu,
        server_cpu: None,
        counters: Some(counters),
    }
}

fn report(rounds: impl IntoIterator<Item = Vec<Row>>) -> Report {
    let mut report = Report::new(Kind::Postgres, SIZE, "postgres://db/shop".to_owned());
    report.rounds = rounds.into_iter().map(|rows| Round { rows, lone: None }).collect();
    report
}

fn rows([eight, sixteen, many, ours]: [u64; 4]) -> Vec<Row> {
    vec![row("plain-8", eight), row("plain-16", sixteen), row("plain-256", many), row("ours", ours)]
}

#[test]
fn ratios_are_those_of_the_best_pool_in_each_round() {
    // One round in which the machine did something else does not count.
    let report = report([
        rows([4_000, 5_000, 2_000, 20_000]),
        rows([5_000, 4_000, 2_000, 25_000]),
        rows([1_000, 1_000, 1_000, 25_000]),
    ]);
    let json = report.json();
    assert_eq!(json["ratio"], 5.0);
    assert_eq!(json["ratio_256"], 12.5);
    assert_eq!(json["cycles_per_second"], 25_000.0);
    assert_eq!(json["plain_cycles_per_second"], 4_000.0);
    assert_eq!(json["plain_256_cycles_per_second"], 2_000.0);
    assert_eq!(json["rows"][3]["verbs_per_commit"], 100.0);
    assert_eq!(json["rows"][3]["wal_bytes_per_cycle"], 900.0);
    assert_eq!(json["rows"][3]["claim_p50_ms"], 2.0);
    assert_eq!(json["rows"][3]["server_cpu_micros_per_cycle"], Value::Null, "it could not be seen");
    assert_eq!(json["rows"][3]["cycles"], 70_000);
    assert_eq!(json["targets"].as_array().unwrap().len(), 2, "what was not measured is not judged");
    assert!(report.is_sound());
}

#[test]
fn a_cycle_that_left_no_row_is_a_fault() {
    let mut lost = rows([4_000, 4_000, 2_000, 20_000]);
    lost[3].counted = 19_999;
    let report = report([lost]);
    assert_eq!(report.faults(), ["round 1, ours: 20000 cycles were reported and 19999 completed rows found"]);
}

#[test]
fn growth_without_a_checkpoint_is_a_fault() {
    let mut report = report([vec![row("ours-small", 20_000), row("ours-large", 15_000)]]);
    report.kind = Kind::Growth;
    assert!(report.is_sound());
    report.rounds[0].rows[1].counters = Some(Counted { commits: 1, wal_bytes: 1, had_checkpoint: false });
    assert_eq!(report.faults(), ["round 1, ours-large: there was no checkpoint in it"]);
}
