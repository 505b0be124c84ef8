//! SIGHUP: another configuration is taken over whole, or not at all.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    api::api,
    backend::Backend,
    http::{get, pay, send},
    process::{Gate, PATIENCE},
};

const REQUIRED: &str = "[[route]]\nname = \"pay\"\nmatch = \"POST /payments\"\nrequired = true\n";

fn start(backend: &Backend, configuration: &str) -> Gate {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("gate.toml"), configuration).unwrap();
    Gate::start_in(directory, &backend.url(), &["--config", "gate.toml"], &[])
}

impl Gate {
    fn write(&self, configuration: &str) {
        fs::write(self.directory.path().join("gate.toml"), configuration).unwrap();
    }

    /// Reloads and waits for it to be taken over; returns what the log said meanwhile.
    fn reload(&mut self, configuration: &str) -> String {
        self.reload_until(configuration, "configuration reloaded")
    }

    /// Reloads and waits for it to be refused.
    fn reload_in_vain(&mut self, configuration: &str) -> String {
        self.reload_until(configuration, "reload refused")
    }

    fn reload_until(&mut self, configuration: &str, end: &str) -> String {
        self.write(configuration);
        let (before, last) = (self.seen().len(), self.last_reload());
        self.signal(Signal::HUP);
        self.wait_for(end);
        // It is logged before it is shown.
        wait_until(|| self.last_reload() != last);
        self.seen()[before..].join("\n")
    }

    fn routes(&self) -> Vec<String> {
        let policy: Value = serde_json::from_str(&get(&self.address, "/.well-known/idempotency", "").body).unwrap();
        policy["routes"].as_array().unwrap().iter().map(|route| route["name"].as_str().unwrap().to_owned()).collect()
    }

    fn last_reload(&self) -> Value {
        api(self, "/api/reload")["last"].take()
    }

    fn counts(&self, line: &str) -> bool {
        get(&self.admin, "/metrics", "").body.lines().any(|each| each == line)
    }

    fn keyless(&self) -> u16 {
        send(&self.address, "POST", "/payments", "").answer().status()
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn another_configuration_takes_effect_with_the_next_request() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    assert_eq!((gate.keyless(), gate.last_reload()), (201, Value::Null));
    let said = gate.reload(REQUIRED);
    assert!(said.contains("route added") && said.contains("pay"), "{said}");
    assert_eq!(gate.routes(), ["pay", "defaults"]);
    assert_eq!(gate.keyless(), 400);
    wait_until(|| gate.counts("oncegate_config_reloads_total{result=\"done\"} 1"));
    assert!(gate.counts("oncegate_config_last_reload_failed 0"));
    assert!(gate.counts(r#"oncegate_requests_total{route="pay",outcome="rejected",status="400"} 1"#));
    assert_eq!(gate.last_reload()["result"], "done");

    let said = gate.reload(&REQUIRED.replace("true", "false"));
    assert!(said.contains("required is false instead of true"), "{said}");
    assert_eq!(gate.keyless(), 201);
    let said = gate.reload("");
    assert!(said.contains("route removed"), "{said}");
    assert_eq!(gate.routes(), ["defaults"]);
}

#[test]
fn a_faulty_file_is_refused_and_shown_and_changes_nothing() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, REQUIRED);
    let said = gate.reload_in_vain("[defaults]\nleese = \"1s\"\nwait = \"soon\"\n");
    let faults = ["gate.toml:2:1: [defaults] unknown key", "gate.toml:3:8: wait"];
    assert!(said.contains(faults[0]) && said.contains(faults[1]), "{said}");
    assert_eq!((gate.routes(), gate.keyless()), (vec!["pay".to_owned(), "defaults".to_owned()], 400));
    wait_until(|| gate.counts("oncegate_config_last_reload_failed 1"));
    assert!(gate.counts("oncegate_config_reloads_total{result=\"refused\"} 1"));
    let ready = get(&gate.admin, "/readyz", "");
    assert_eq!((ready.status(), &*ready.body), (200, "ready; the last reload was refused\n"));
    let last = gate.last_reload();
    assert_eq!(last["result"], "refused");
    let shown: Vec<_> = last["faults"].as_array().unwrap().iter().map(|fault| fault.as_str().unwrap()).collect();
    assert!(shown.len() == 2 && shown.iter().zip(faults).all(|(shown, fault)| shown.starts_with(fault)), "{shown:?}");

    gate.reload(REQUIRED);
    wait_until(|| gate.counts("oncegate_config_last_reload_failed 0"));
    assert_eq!(get(&gate.admin, "/readyz", "").body, "ready\n");
}

#[test]
fn a_file_that_is_gone_changes_nothing() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, REQUIRED);
    fs::remove_file(gate.directory.path().join("gate.toml")).unwrap();
    gate.signal(Signal::HUP);
    gate.wait_for("gate.toml cannot be read");
    assert_eq!(gate.keyless(), 400);
}

#[test]
fn what_needs_a_restart_is_refused_by_name_together_with_all_else() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    let said = gate.reload_in_vain(&format!("drain = \"7s\"\n{REQUIRED}[store]\ncache_bytes = \"1MiB\"\n"));
    for fault in [
        r#"gate.toml:1:9: drain is "7s" instead of "30s": needs a restart"#,
        r#"gate.toml:7:15: [store] cache_bytes is "1MiB" instead of "64MiB": needs a restart"#,
    ] {
        assert!(said.replace("\\\"", "\"").contains(fault), "no {fault} in {said}");
    }
    assert_eq!((gate.routes(), gate.keyless()), (vec!["defaults".to_owned()], 201));
}

#[test]
fn of_two_signals_in_a_row_the_later_file_is_in_force() {
    let backend = Backend::prompt();
    let gate = start(&backend, "");
    for round in 0..20 {
        gate.write("[defaults]\nleese = 1\n");
        gate.signal(Signal::HUP);
        let name = format!("pay-{round}");
        gate.write(&REQUIRED.replace("\"pay\"", &format!("\"{name}\"")));
        gate.signal(Signal::HUP);
        wait_until(|| gate.routes() == [name.clone(), "defaults".to_owned()]);
    }
    wait_until(|| gate.last_reload()["result"] == "done");
}

#[test]
fn no_request_is_lost_while_routes_change() {
    const REQUESTS: usize = 100;
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    let address = gate.address.clone();
    thread::scope(|scope| {
        let paying = ["a", "b"].map(|client| {
            let address = &address;
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    let key = format!("{client}{request}");
                    assert_eq!((pay(address, &key).status(), pay(address, &key).status()), (201, 201), "{key}");
                }
            })
        });
        while paying.iter().any(|client| !client.is_finished()) {
            gate.reload(REQUIRED);
            gate.reload("");
        }
        paying.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!(backend.executions(), 2 * REQUESTS, "each key once");
}

#[test]
fn a_request_under_way_keeps_the_route_that_it_began_with() {
    let backend = Backend::holding();
    let mut gate = start(&backend, REQUIRED);
    let running = send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    backend.arrival();
    gate.reload("");
    backend.release();
    assert_eq!(running.answer().status(), 201);
    wait_until(|| gate.counts(r#"oncegate_requests_total{route="pay",outcome="executed",status="201"} 1"#));
    let repeat = pay(&gate.address, "k1");
    assert_eq!((repeat.status(), repeat.field("idempotent-replayed")), (201, Some("true")));
    assert_eq!(backend.executions(), 0, "it was executed once");
}

#[test]
fn another_scope_is_said_loudly_since_keys_are_new() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    assert_eq!(pay(&gate.address, "k1").status(), 201);
    let said = gate.reload("[defaults]\nscope = [\"authorization\", \"route\"]\n");
    let warning = said.lines().find(|line| line.contains("keys claimed before are new keys")).expect("a warning");
    assert!(warning.contains("WARN") && warning.contains("defaults"), "{warning}");
    assert_eq!(pay(&gate.address, "k1").field("idempotent-replayed"), None, "as it was said");
    assert_eq!(backend.executions(), 2);
}

#[test]
fn records_are_compared_under_the_rules_that_they_were_made_with() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    assert_eq!(pay(&gate.address, "k1").status(), 201);
    // The request comes to a route that there was not, with rules of its own.
    let said = gate.reload(&format!("{REQUIRED}ignore = [\"/sent_at\"]\n"));
    assert!(said.contains("the fingerprint rules changed"), "{said}");
    assert_eq!(pay(&gate.address, "k1").field("idempotent-replayed"), Some("true"));
    // And again after one more that changes nothing.
    gate.reload(&format!("{REQUIRED}ignore = [\"/sent_at\"]\nwait = \"1s\"\n"));
    assert_eq!(pay(&gate.address, "k1").field("idempotent-replayed"), Some("true"));
    let other = send(&gate.address, "POST", "/payments?x=1", "Idempotency-Key: k1\r\n").answer();
    assert_eq!(other.status(), 422, "{}", other.body);
    assert_eq!(backend.executions(), 1);
}

#[test]
fn the_order_of_routes_counts_and_its_change_is_said() {
    let backend = Backend::prompt();
    let all = "[[route]]\nname = \"all\"\nmatch = \"* /**\"\n";
    let mut gate = start(&backend, &[REQUIRED, all].concat());
    assert_eq!(gate.keyless(), 400);
    let said = gate.reload(&[REQUIRED, all].concat());
    assert!(!said.contains("another order"), "{said}");
    let said = gate.reload(&["[[route]]\nname = \"new\"\nmatch = \"POST /x\"\n", all, REQUIRED].concat());
    assert!(said.contains("routes are tried in another order"), "{said}");
    assert_eq!(gate.keyless(), 201);
}

#[test]
fn a_header_that_became_the_key_cannot_be_named_away() {
    let backend = Backend::prompt();
    let mut gate = start(&backend, "");
    // Named in Connection it ends here, and so the request has no key.
    let fields = "Connection: X-Key\r\nX-Key: k1\r\n";
    let status = |gate: &Gate| send(&gate.address, "POST", "/payments", fields).answer().status();
    assert_eq!(status(&gate), 201);
    gate.reload("[defaults]\nkey = \"header:X-Key\"\n");
    assert_eq!(status(&gate), 400);
    assert_eq!(backend.executions(), 1);
}

#[test]
fn a_new_secret_in_front_changes_no_caller_and_no_comparison() {
    let backend = Backend::prompt();
    let secret = |id: &str| format!("[[secrets]]\nid = \"{id}\"\nvalue = \"{}\"\n", id.repeat(32));
    let mut gate = start(&backend, &secret("a"));
    let known = |key: &str| format!("Idempotency-Key: {key}\r\nAuthorization: Bearer A\r\n");
    let pay = |gate: &Gate, key: &str| send(&gate.address, "POST", "/payments", &known(key)).answer();
    assert_eq!(pay(&gate, "k1").status(), 201);
    let said = gate.reload(&[secret("b"), secret("a")].concat());
    assert!(said.contains("the fingerprint rules changed") && !said.contains("new keys"), "{said}");
    assert_eq!(pay(&gate, "k1").field("idempotent-replayed"), Some("true"));
    assert_eq!(pay(&gate, "k2").status(), 201);

    let said = gate.reload_in_vain(&[secret("b"), secret("a").replace("aaaa", "cccc")].concat());
    assert!(said.contains("has another value") && !said.contains("cccc"), "{said}");
    // Without the oldest, every caller is another one.
    let said = gate.reload(&secret("b"));
    assert!(said.contains("keys claimed before are new keys"), "{said}");
    assert_eq!(pay(&gate, "k1").field("idempotent-replayed"), None, "as it was said");
    assert_eq!(backend.executions(), 3);
}

#[test]
fn another_admin_token_holds_from_then_on() {
    let backend = Backend::prompt();
    let token = |digit: char| String::from_iter([digit; 32]);
    let mut gate = start(&backend, &format!("[admin]\ntoken = \"{}\"\n", token('a')));
    gate.write(&format!("[admin]\ntoken = \"{}\"\n", token('b')));
    gate.signal(Signal::HUP);
    gate.wait_for("configuration reloaded");
    let status = |digit| get(&gate.admin, "/metrics", &format!("Authorization: Bearer {}\r\n", token(digit))).status();
    assert_eq!((status('a'), status('b')), (401, 200));
}

#[test]
fn a_gate_that_stops_takes_over_nothing() {
    let backend = Backend::holding();
    let mut gate = start(&backend, "");
    let running = send(&gate.address, "POST", "/payments", "Idempotency-Key: k1\r\n");
    backend.arrival();
    gate.signal(Signal::TERM);
    gate.wait_for("stopping");
    gate.signal(Signal::HUP);
    gate.wait_for("SIGHUP ignored while stopping");
    backend.release();
    assert_eq!(running.answer().status(), 201);
    assert_eq!(gate.wait().0.code(), Some(0));
}
