//! `kill -9` of the gateway at every named point of the flow, under load.

use std::{collections::HashMap, os::unix::process::ExitStatusExt as _, thread};

use crate::{
    client::{Answer, conclude, pay},
    place::{Doors, Place},
};

const POINTS: [&str; 6] =
    ["claimed", "dispatched", "head_received", "body_received", "before_complete", "after_complete"];

/// Clients of each gateway.
const CLIENTS: usize = 4;

const DEFAULTS: &str = "upstream_timeout = \"4s\"\nlease = \"4s\"";

fn kills() -> usize {
    std::env::var("ONCEGATE_KILLS").map_or(1, |kills| kills.parse().expect("ONCEGATE_KILLS is a number"))
}

#[test]
fn a_gateway_that_is_killed_costs_no_payment_and_no_answer() {
    let place = Place::open();
    let doors = &place.doors;
    let mut keys = 0;
    for kill in 0..kills() {
        // All points at once: most of the time goes by waiting for leases to end.
        keys += thread::scope(|scope| {
            let rounds: Vec<_> = POINTS.iter().map(|point| scope.spawn(|| round(doors, point, kill))).collect();
            rounds.into_iter().map(|round| round.join().unwrap()).sum::<usize>()
        });
    }
    let unknown = place.query("SELECT count(*) FROM oncegate.records WHERE state <> 'completed'");
    println!("{keys} keys, payments|wrong keys {}", place.payments_and_wrong_keys());
    assert_eq!(unknown, "0");
    assert_eq!(place.payments_and_wrong_keys(), format!("{keys}|0"));
}

/// Loads a gateway until it dies, and concludes with another one whatever was sent. Answers how many keys that was.
fn round(doors: &Doors, point: &str, kill: usize) -> usize {
    let crash_at = format!("{point}:{}", 8 + 3 * kill);
    let gate = doors.gate(DEFAULTS, &[("ONCEGATE_CRASH_AT", &crash_at)]);
    let sent = load(&gate.address, &format!("{point}-{kill}"));
    let (status, _directory) = gate.wait();
    assert_eq!(status.signal(), Some(9), "{point}: it ended by {status} instead of kill -9");

    let gate = doors.gate(DEFAULTS, &[]);
    let (mut lost, mut replayed, mut executed) = (0, 0, 0);
    thread::scope(|scope| {
        for (key, first) in &sent {
            let concluded = scope.spawn(|| conclude(&gate.address, key));
            let Some(first) = first else {
                let answer = concluded.join().unwrap();
                assert_eq!((answer.status, answer.problem), (201, None), "{key}");
                lost += 1;
                replayed += usize::from(answer.is_replay);
                executed += usize::from(!answer.is_replay);
                continue;
            };
            let repeat = concluded.join().unwrap();
            assert_eq!((repeat.status, repeat.is_replay, &repeat.body), (201, true, &first.body), "{key}: answered");
        }
    });
    println!("{point}: {} keys, {lost} unanswered: {replayed} replayed, {executed} executed after it", sent.len());
    sent.len()
}

/// Sends new keys until the gateway dies. For each key: the answer, if it came.
fn load(address: &str, name: &str) -> HashMap<String, Option<Answer>> {
    thread::scope(|scope| {
        let client = |number: usize| {
            let mut sent = Vec::new();
            loop {
                let key = format!("{name}-client-{number}-payment-{}", sent.len());
                let answer = pay(address, &key);
                let is_over = answer.is_none();
                // A busy machine may have been too late: a problem is no answer that must be kept.
                sent.push((key, answer.filter(|answer| answer.problem.is_none())));
                if is_over {
                    return sent;
                }
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}
