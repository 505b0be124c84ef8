//! What becomes of each way in which a backend may answer.

use crate::{
    client::{conclude, pay, pay_misbehaving, send},
    pages::question,
    place::{Place, counter},
};

/// Generous, so that only a worker that is asked to be silent is too late.
const DEFAULTS: &str = "upstream_timeout = \"5s\"\nlease = \"10s\"";

#[test]
fn each_key_is_one_payment_however_the_backend_answers() {
    let place = Place::open();
    let gate = place.gate(DEFAULTS);
    // What it does, whether the client hears it from the record, and whether it is counted.
    for (deed, is_from_record, is_uncooperative) in [
        ("nothing wrong", false, false),
        ("forget to complete", false, true),
        ("fail after the commit", true, false),
        ("cut after the commit", true, false),
        ("stay silent after the commit", true, false),
        // A hop between us sends the request once more, and passes on the second answer.
        ("deliver twice", true, false),
    ] {
        let key = deed.replace(' ', "-");
        let before = counter(&gate, "oncegate_uncooperative_responses_total");
        let first = pay_misbehaving(&gate.address, &key, deed).unwrap();
        assert_eq!((first.status, first.is_replay), (201, is_from_record), "{deed}: {first:?}");
        let repeat = pay(&gate.address, &key).unwrap();
        assert_eq!((repeat.status, repeat.is_replay, &repeat.body), (201, true, &first.body), "{deed}");
        assert_eq!(place.payments(&key), "1", "{deed}");
        let counted = counter(&gate, "oncegate_uncooperative_responses_total") - before;
        assert_eq!(counted, u64::from(is_uncooperative), "{deed}");
    }
    assert_eq!(counter(&gate, "oncegate_stale_writes_total"), 0);
    assert_eq!(counter(&gate, "oncegate_takeovers_total"), 0);
    let uncooperative = place.query(question());
    assert!(uncooperative.starts_with("forget-to-complete|POST /payments|"), "{uncooperative}");
    assert_eq!(uncooperative.lines().count(), 1, "{uncooperative}");
}

#[test]
fn a_refusal_that_committed_nothing_is_executed_again_at_once() {
    let place = Place::open();
    let gate = place.gate(DEFAULTS);
    let refused = pay_misbehaving(&gate.address, "k", "refuse").unwrap();
    assert_eq!((refused.status, refused.is_replay, &*refused.body), (500, false, "refused"));
    assert_eq!(place.query("SELECT count(*) FROM oncegate.records"), "0");
    let repeat = pay(&gate.address, "k").unwrap();
    assert_eq!((repeat.status, repeat.is_replay), (201, false));
    assert_eq!(place.payments_and_wrong_keys(), "1|0");
}

#[test]
fn one_fence_that_is_delivered_twice_is_one_payment() {
    let mut place = Place::open();
    let gate = place.gate(DEFAULTS);
    pay(&gate.address, "later").unwrap();
    let names = place.query("SELECT record || ' ' || fence FROM oncegate.records");
    let (record, fence) = names.split_once(' ').unwrap();
    let copy = |key: &str, record: &str, fence: &str| {
        format!("Idempotency-Key: {key}\r\nOncegate-Record: {record}\r\nOncegate-Fence: {fence}\r\n")
    };
    assert_eq!(send(&place.workers.address, &copy("later", record, fence)).unwrap().status, 409);

    // At once: the copy overtakes the request, which stands in its transaction meanwhile.
    let address = gate.address.clone();
    let first = std::thread::spawn(move || pay_misbehaving(&address, "overtaken", "stop before completing"));
    let (key, process) = place.workers.wait_for_stops(1).into_iter().next().unwrap();
    let names = place.query(&format!("SELECT record || ' ' || fence FROM oncegate.records WHERE key = '{key}'"));
    let (record, fence) = names.split_once(' ').unwrap();
    let overtaking = send(&place.workers.address, &copy(&key, record, fence)).unwrap();
    assert_eq!(overtaking.status, 201);
    crate::workers::Workers::go_on(process);
    assert_eq!(place.workers.wait_for_fenced(2), ["later", "overtaken"]);
    let first = first.join().unwrap().unwrap();
    assert_eq!((first.status, first.is_replay, &first.body), (201, true, &overtaking.body), "what was committed");
    assert_eq!(conclude(&gate.address, "overtaken").body, overtaking.body);
    assert_eq!(place.payments_and_wrong_keys(), "2|0");
}

#[test]
fn clients_cannot_name_a_record_themselves() {
    let place = Place::open();
    let gate = place.gate(DEFAULTS);
    pay(&gate.address, "k").unwrap();
    let record = place.query("SELECT record FROM oncegate.records");
    let forged = format!("Oncegate-Record: {record}\r\nOncegate-Fence: 1\r\n");
    let unguarded = send(&gate.address, &forged).unwrap();
    assert_eq!((unguarded.status, unguarded.is_replay), (201, false), "without a key it is not guarded");
    assert_eq!(place.payments("no key"), "1");
}
