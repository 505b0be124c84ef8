//! `oncegate records`.

use std::fs;

use rustix::process::Signal;

use crate::{
    process::{run, text},
    service::{Service, ended, pay, pay_until, printed},
};

#[test]
fn c91_finding_the_one_record_to_delete() {
    let service = Service::start();
    let gate = service.gate();
    for organisation in ["acme", "other"] {
        assert_eq!(pay(&gate, organisation, "K1").status(), 201);
    }

    // All that the operator has is the client's key and the tenant's name.
    let shown = ended(&gate, &["show", "K1", "--scope", "acme"], 0);
    for expected in ["POST /payments", "completed", "status", "201", "x-org=4:acme", "fence", "created", "expires"] {
        assert!(shown.contains(expected), "no {expected} in\n{shown}");
    }
    assert!(!shown.contains("paid 1"), "never the body by default");
    assert!(ended(&gate, &["show", "K1", "--scope", "acme", "--body"], 0).contains("paid 1"));
    assert!(ended(&gate, &["show", "K1"], 1).contains("2 records are named"), "the key alone names two");

    let listed = printed(&gate, &["list", "--key", "K1", "--scope", "acme"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let record = listed[0]["record"].as_str().unwrap()[..8].to_owned();
    assert_eq!(listed[0]["status"], 201);
    assert!(listed[0].get("response").is_none(), "{listed}");

    // Without a fence nothing is changed, and the command that would is said.
    let advice = ended(&gate, &["purge", &record], 1);
    let line = advice.lines().find_map(|line| line.trim().strip_prefix("oncegate records ")).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(pay(&gate, "acme", "K1").body, "paid 1");
    ended(&gate, &words, 0);

    pay_until(&gate, ("acme", "K1"), "paid 3");
    assert_eq!(pay(&gate, "other", "K1").body, "paid 2", "the other tenant's stays");
    assert_eq!(service.executions(), 3);
}

#[test]
fn a_purge_takes_effect_in_every_gate_on_the_store() {
    let service = Service::start();
    let one = service.gate();
    let store = format!("sqlite://{}", one.directory.path().join("oncegate.db").display());
    let two = service.gate_on(&["--store", &store]);
    for gate in [&one, &two] {
        assert_eq!(pay(gate, "acme", "K1").body, "paid 1", "both remember it");
    }
    let record = &printed(&one, &["show", "K1"])["record"].as_str().unwrap()[..8].to_owned();
    let fence = printed(&one, &["show", "K1"])["fence"].to_string();
    ended(&one, &["purge", record, "--fence", &fence, "--reason", "a wrong answer"], 0);
    pay_until(&one, ("acme", "K1"), "paid 2");
    pay_until(&two, ("acme", "K1"), "paid 2");
    assert_eq!(service.executions(), 2);
}

#[test]
fn an_unknown_record_is_resolved_and_repeats_get_the_response() {
    let service = Service::start();
    let gate = service.gate();
    service.lose_answers(true);
    assert_eq!(pay(&gate, "acme", "K1").status(), 502);
    assert_eq!(pay(&gate, "acme", "K1").status(), 409);
    service.lose_answers(false);

    let unknown = printed(&gate, &["list", "--state", "unknown"]);
    let (record, fence) = (unknown[0]["record"].as_str().unwrap(), unknown[0]["fence"].to_string());
    let advice = ended(&gate, &["resolve", record], 1);
    assert!(advice.contains(&format!("--fence {fence}")), "{advice}");
    fs::write(gate.directory.path().join("receipt.json"), r#"{"charge":"ch_1"}"#).unwrap();
    let response = ["--status", "201", "--header", "Content-Type: application/json", "--body", "@receipt.json"];
    let order = ["resolve", record, "--fence", &fence, "--reason", "charge ch_1 exists"];
    ended(&gate, &[&order[..], &response].concat(), 0);
    pay_until(&gate, ("acme", "K1"), r#"{"charge":"ch_1"}"#);
    let repeat = pay(&gate, "acme", "K1");
    assert_eq!((repeat.status(), repeat.field("content-type")), (201, Some("application/json")));
    assert_eq!(service.executions(), 1);
}

#[test]
fn a_released_record_executes_again_and_all_of_it_is_audited() {
    let service = Service::start();
    let gate = service.gate();
    service.lose_answers(true);
    assert_eq!(pay(&gate, "acme", "K1").status(), 502);
    service.lose_answers(false);
    let unknown = printed(&gate, &["show", "K1"]);
    let (record, fence) = (unknown["record"].as_str().unwrap(), unknown["fence"].to_string());
    ended(&gate, &["release", record, "--fence", &fence, "--reason", "no charge at the provider"], 0);
    pay_until(&gate, ("acme", "K1"), "paid 2");

    // The audit outlives the gate, and so do the commands.
    gate.signal(Signal::TERM);
    let (_, directory) = gate.wait();
    let output = run(directory.path(), &["records", "audit", "--json"], &[]);
    let audit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(audit.as_array().unwrap().len(), 1, "{audit}");
    assert_eq!((&audit[0]["verb"], &audit[0]["operator"]), (&"release".into(), &"ada".into()));
    assert_eq!((&audit[0]["record"], &audit[0]["reason"]), (&record.into(), &"no charge at the provider".into()));
}

#[test]
fn what_is_refused_says_what_the_record_is_now() {
    let service = Service::start();
    let gate = service.gate();
    pay(&gate, "acme", "K1");
    let record = printed(&gate, &["show", "K1"]);
    let (record, fence) = (record["record"].as_str().unwrap(), record["fence"].to_string());
    let why = ["--reason", "why"];
    let said = ended(&gate, &[&["purge", record, "--fence", "999"], &why[..]].concat(), 1);
    assert!(said.contains(&format!("has fence {fence}, not 999, and is completed")), "{said}");
    let said = ended(&gate, &[&["release", record, "--fence", &fence], &why[..]].concat(), 1);
    assert!(said.contains("is completed") && said.contains("purge deletes it"), "{said}");
    assert_eq!(pay(&gate, "acme", "K1").body, "paid 1", "nothing was changed");
    assert_eq!(printed(&gate, &["audit"]), serde_json::json!([]));

    assert!(ended(&gate, &["show", "ffffffff"], 1).contains("no record is named"));
    assert!(ended(&gate, &["purge", "K1"], 1).contains("is not a record"), "a key may be in several scopes");
    ended(&gate, &["purge", record, "--fence", &fence], 2);
    ended(&gate, &["purge", record, "--fence", &fence, "--reason", " "], 2);
    ended(&gate, &["resolve", record, "--fence", &fence, "--reason", "why"], 2);
    ended(&gate, &["resolve", record, "--fence", &fence, "--reason", "why", "--status", "99"], 2);
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["records", "list"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("there are no records at sqlite://oncegate.db"), "{said}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
