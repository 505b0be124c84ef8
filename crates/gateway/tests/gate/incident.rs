//! An incident, played on real servers and judged by a real Prometheus under the published rules: workers are killed, clients
//! make new keys for their repeats, the store is slow and then gone, its front hangs, and more of the kind. Every alert
//! fires, and clears again when the cause is gone; every metric moves.
//!
//! Only the times of the rules are shortened. An outbox is shown by a gate of its own, before another database: it does not go
//! with a transactional backend.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    api::{api, command},
    http::{get, send},
    monitoring::{alerts, assert_exported, published},
    process::{Gate, PATIENCE, oncegate},
    servers::{postgres::PostgresServer, prometheus::Prometheus, redis::RedisServer},
};

mod seen;
mod service;

use self::{seen::Seen, service::Service};

const DATABASE: &str = "shop";

const CONFIGURATION: &str = r#"
[store]
timeout = "5s"
[defaults]
scope = ["header:X-Org"]
lease = "2s"
[[route]]
name = "plain"
match = "POST /plain/**"
[[route]]
name = "idempotent"
match = "POST /idempotent/**"
backend = "idempotent"
[[route]]
name = "transactional"
match = "POST /transactional/**"
backend = "transactional"
[[route]]
name = "open"
match = "POST /open/**"
fail_open = true
[[route]]
name = "brief"
match = "POST /brief/**"
lease = "1s"
retention = "2s"
"#;

/// Of the gate that has an outbox. It is not closed while the incident lasts.
const OF_AN_OUTBOX: &str = "[store]\ndurability = \"outbox\"\noutbox_limit = \"20s\"\n[defaults]\nlease = \"5m\"";

/// What no incident here can move: what is running, and a log that nobody asked for.
const UNMOVED: [&str; 2] = ["oncegate_access_log_dropped_lines_total", "oncegate_build_info"];

/// Where the gate with an outbox keeps its records.
const OTHERS: &str = "orders";

struct Incident {
    prometheus: Prometheus,
    gate: Gate,
    /// Killed, and started again on the same port.
    other: Option<Gate>,
    service: Service,
    store: PostgresServer,
    front: RedisServer,
    seen: Seen,
}

/// The rules, in a hurry: what lasts minutes there lasts seconds here.
fn hurried(rules: &str) -> String {
    let rules = ["[5m]", "[15m]", "[1h]"].iter().fold(rules.to_owned(), |rules, window| rules.replace(window, "[4s]"));
    let lines = rules.lines().filter(|line| !line.trim().starts_with("for: "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The text of the page's block in this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    page.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap()
}

fn start_gate(service: &Service, store: (&str, &str), admin: &str) -> Gate {
    start_gate_with(CONFIGURATION, service, store, admin)
}

fn start_gate_with(configuration: &str, service: &Service, (store, front): (&str, &str), admin: &str) -> Gate {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("gate.toml"), configuration).unwrap();
    let upstream = service.url();
    let fixed =
        ["serve", "--config", "gate.toml", "--upstream", &upstream, "--listen", "127.0.0.1:0", "--admin", admin];
    let mut command = oncegate(directory.path(), &fixed);
    command.env("ONCEGATE__STORE__URL", store).env("ONCEGATE__STORE__FRONT", front);
    let mut gate = Gate::start_as(command, directory);
    gate.address = gate.wait_for("listening on http://");
    gate
}

impl Incident {
    fn start() -> Self {
        let store = PostgresServer::start().unwrap();
        store.create_database(DATABASE).unwrap();
        let (service, front) = (Service::start(), RedisServer::start(&[]).unwrap());
        let (url, front_url) = (Self::url(&store), front.address());
        let gate = start_gate(&service, (&url, &front_url), "127.0.0.1:0");
        let other = start_gate(&service, (&url, &front_url), "127.0.0.1:0");
        let scraped = block(&published("docs/runbook.md"), "yaml")
            .replace("\"127.0.0.1:8081\"", &format!("\"{}\", \"{}\"", gate.admin, other.admin));
        let prometheus = Prometheus::start(&hurried(&published("monitoring/rules.yml")), &scraped).unwrap();
        let mut incident = Self { prometheus, gate, other: Some(other), service, store, front, seen: Seen::default() };
        incident.look();
        incident.wait("both are scraped", |incident| {
            let up = incident.prometheus.query("sum(up)").unwrap();
            up["result"][0]["value"][1] == "2"
        });
        incident
    }

    fn url(store: &PostgresServer) -> String {
        format!("postgres://{}:{}@127.0.0.1:{}/{DATABASE}", store.user(), store.password(), store.port())
    }

    /// Sends a request to the gate that lives on; its answer's status.
    fn post(&self, path: &str, org: &str, key: &str) -> u16 {
        send(&self.gate.address, "POST", path, &fields(org, key)).answer().status()
    }

    fn look(&mut self) {
        self.seen.add(&self.metrics());
    }

    fn metrics(&self) -> String {
        get(&self.gate.admin, "/metrics", "").body
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics().lines().any(|each| each == line)
    }

    fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "never: {what}; firing: {:?}", self.prometheus.firing().unwrap());
            thread::sleep(Duration::from_millis(50));
        }
        self.look();
    }

    /// Waits until these alerts have fired.
    fn wait_for_alerts(&mut self, names: &[&str]) {
        self.wait(&format!("{names:?} fired"), |incident| incident.have_fired(names));
    }

    fn have_fired(&self, names: &[&str]) -> bool {
        let fired = self.prometheus.fired().unwrap();
        names.iter().all(|name| fired.iter().any(|each| each == name))
    }
}

fn fields(org: &str, key: &str) -> String {
    let org = if org.is_empty() { String::new() } else { format!("X-Org: {org}\r\n") };
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    org + &key
}

// === what happens ===

impl Incident {
    /// Clients that make a new key for each repeat, change their name between repeats, or send what is no key.
    fn clients_err(&mut self) {
        for (org, key, status) in [
            ("acme", "k1", 201),
            ("acme", "k1", 201),
            ("acme", "k2", 201),
            ("other", "k1", 201),
            ("", "k3", 201),
            ("", "k4", 201),
            ("acme", "", 201),
            ("acme", "k,k", 400),
        ] {
            assert_eq!(self.post("/plain/pay", org, key), status, "{org} {key}");
        }
        assert_eq!(self.post("/plain/another/pay", "acme", "k1"), 422);
        assert_eq!((self.post("/plain/part", "acme", "k5"), self.post("/brief/pay", "acme", "k6")), (206, 201));
        assert_eq!(self.post("/transactional/pay", "acme", "k7"), 201, "and it does not complete");
    }

    /// The other gate dies while it executes; what it leaves behind.
    fn a_gate_dies(&mut self) {
        let other = self.other.take().unwrap();
        for (path, key) in [("/idempotent/hold", "a1"), ("/plain/hold", "a2")] {
            let sent = send(&other.address, "POST", path, &fields("acme", key));
            self.service.arrival();
            drop(sent);
        }
        let admin = other.admin.clone();
        drop(other);
        // What the service answers now, nobody hears.
        (0..2).for_each(|_| self.service.release());
        self.wait_for_alerts(&["OncegateDown", "OncegateAbandonedRecords", "OncegateUnknownRecords"]);
        self.wait("the reaper gives one up", |incident| incident.metrics().contains("what=\"abandoned\""));
        let store = (&*Self::url(&self.store), &*self.front.address());
        self.other = Some(start_gate(&self.service, store, &admin));
    }

    /// A slow request whose repeats come too soon, whose client leaves, and whose record an operator releases.
    fn a_request_takes_long(&mut self) {
        let first = send(&self.gate.address, "POST", "/plain/hold", &fields("acme", "h1"));
        self.service.arrival();
        self.wait("repeats are eager", |incident| {
            assert_eq!(incident.post("/plain/hold", "acme", "h1"), 409);
            incident.have_fired(&["OncegateEagerRepeats"]) && !incident.counts("oncegate_in_flight_records 0")
        });
        drop(first);
        let listed = api(&self.gate, "/api/records?key=h1");
        let record = &listed["records"][0];
        let order = json!({ "fence": record["fence"], "reason": "the test says so", "force": true });
        command(&self.gate, &format!("/api/records/{}/release", record["record"].as_str().unwrap()), &order);
        self.service.release();
        self.wait_for_alerts(&["OncegateStaleWrites"]);
    }

    /// The answer is lost; a repeat finds out.
    fn an_answer_is_lost(&mut self) {
        assert_eq!((self.post("/plain/drop", "acme", "d1"), self.post("/plain/drop", "acme", "d1")), (502, 409));
    }

    fn the_configuration_is_broken(&mut self) {
        fs::write(self.gate.directory.path().join("gate.toml"), "listem = 1\n").unwrap();
        self.gate.signal(Signal::HUP);
        self.wait_for_alerts(&["OncegateReloadRefused"]);
        fs::write(self.gate.directory.path().join("gate.toml"), CONFIGURATION).unwrap();
        self.gate.signal(Signal::HUP);
    }

    fn the_store_is_slow(&mut self) {
        let make = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN PERFORM pg_sleep(0.7); RETURN NEW; END $$;
                    CREATE TRIGGER slow BEFORE INSERT ON oncegate.records FOR EACH ROW EXECUTE FUNCTION slow()";
        self.store.execute(DATABASE, make).unwrap();
        let mut number = 0;
        self.wait("the store is slow", |incident| {
            number += 1;
            incident.post("/plain/pay", "slow", &format!("s{number}"));
            incident.have_fired(&["OncegateStoreSlow"])
        });
        self.store.execute(DATABASE, "DROP TRIGGER slow ON oncegate.records; DROP FUNCTION slow").unwrap();
    }

    fn the_front_hangs(&mut self) {
        self.front.signal(Signal::STOP);
        let mut number = 0;
        self.wait("the front is left alone", |incident| {
            number += 1;
            assert_eq!(incident.post("/plain/pay", "front", &format!("f{number}")), 201, "PostgreSQL decides");
            incident.have_fired(&["OncegateBreakerOpen"])
        });
        self.front.signal(Signal::CONT);
        self.wait("the front is asked again", |incident| {
            assert_eq!(incident.post("/plain/pay", "front", "f1"), 201);
            incident.counts("oncegate_breaker_open 0")
        });
    }

    /// The other gate has an outbox now, before a database of its own.
    fn an_outbox_is_in_trouble(&mut self) {
        self.store.create_database(OTHERS).unwrap();
        let (front, admin) = (RedisServer::start(&[]).unwrap(), self.other.take().unwrap().admin.clone());
        let store = Self::url(&self.store).replace(DATABASE, OTHERS);
        let gate = start_gate_with(OF_AN_OUTBOX, &self.service, (&store, &front.address()), &admin);
        self.an_outbox_lags(&gate);
        self.postgresql_refuses_an_entry(&gate);
        self.an_entry_comes_too_late(&gate);
        drop(gate);
        let store = (&*Self::url(&self.store), &*self.front.address());
        self.other = Some(start_gate(&self.service, store, &admin));
    }

    /// Redis acknowledges, and PostgreSQL takes its time.
    fn an_outbox_lags(&mut self, gate: &Gate) {
        let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$;
                    CREATE TRIGGER slow BEFORE INSERT ON oncegate.records FOR EACH ROW EXECUTE FUNCTION slow()";
        self.store.execute(OTHERS, slow).unwrap();
        let mut number = 0;
        self.wait("the outbox lags", |incident| {
            number += 1;
            let paid = send(&gate.address, "POST", "/pay", &fields("", &format!("o{number}"))).answer().status();
            assert_eq!(paid, 201, "nobody waits for PostgreSQL");
            incident.look_at_outbox(gate);
            incident.have_fired(&["OncegateOutboxLags"])
        });
        self.store.execute(OTHERS, "DROP TRIGGER slow ON oncegate.records; DROP FUNCTION slow").unwrap();
        self.wait("the outbox is drained", |_| {
            let metrics = get(&gate.admin, "/metrics", "").body;
            metrics.lines().any(|line| line == "oncegate_outbox_entries 0")
        });
        self.wait("the alert clears", |incident| {
            !incident.prometheus.firing().unwrap().iter().any(|each| each == "OncegateOutboxLags")
        });
    }

    /// What Redis has acknowledged PostgreSQL will never write.
    fn postgresql_refuses_an_entry(&mut self, gate: &Gate) {
        let antidote = "ALTER TABLE oncegate.records ADD CONSTRAINT antidote CHECK (key <> 'poison')";
        self.store.execute(OTHERS, antidote).unwrap();
        assert_eq!(send(&gate.address, "POST", "/pay", &fields("", "poison")).answer().status(), 201);
        self.wait("it is set aside", |incident| {
            incident.look_at_outbox(gate);
            incident.have_fired(&["OncegateOutboxPoison"])
        });
    }

    /// A record is in other hands by the time at which it is completed in Redis.
    fn an_entry_comes_too_late(&mut self, gate: &Gate) {
        let sent = send(&gate.address, "POST", "/hold", &fields("", "late"));
        self.service.arrival();
        let taken = "DO $$ BEGIN
                       UPDATE oncegate.records SET fence = nextval('oncegate.fences') WHERE key = 'late';
                       IF NOT FOUND THEN RAISE 'its claim is not drained yet'; END IF;
                     END $$";
        self.wait("another attempt has it", |incident| incident.store.execute(OTHERS, taken).is_ok());
        self.service.release();
        assert_eq!(sent.answer().status(), 201, "as far as Redis knows");
        self.wait("PostgreSQL does not keep it", |incident| {
            incident.look_at_outbox(gate);
            incident.have_fired(&["OncegateOutboxTooLate"])
        });
    }

    /// What the others export, with the outbox of this one.
    fn look_at_outbox(&mut self, gate: &Gate) {
        let is_of_outbox = |line: &&str| line.starts_with("oncegate_outbox_");
        let (ours, its) = (self.metrics(), get(&gate.admin, "/metrics", "").body);
        let lines = ours.lines().filter(|line| !is_of_outbox(line)).chain(its.lines().filter(is_of_outbox));
        self.seen.add(&lines.collect::<Vec<_>>().join("\n"));
    }

    fn the_store_is_gone(&mut self) {
        let locks = published("docs/runbook.md");
        self.store.execute(DATABASE, block(&locks, "sql")).unwrap();
        self.store.stop();
        let mut number = 0;
        self.wait("the store is down", |incident| {
            number += 1;
            let (refused, passed) =
                (incident.post("/plain/pay", "gone", &format!("g{number}")), incident.post("/open/pay", "gone", "o1"));
            assert_eq!((refused, passed), (503, 201));
            // A slow store may have been called down already.
            incident.counts("oncegate_store_up 0")
                && incident.have_fired(&[
                    "OncegateStoreDown",
                    "OncegateRefusesRequests",
                    "OncegateStoreErrors",
                    "OncegateFailedOpen",
                ])
        });
        self.store.start_again().unwrap();
        self.wait("the store is back", |incident| incident.counts("oncegate_store_up 1"));
    }

    /// What died is repeated, and what is unknown is decided.
    fn people_clean_up(&mut self) {
        let repeat = send(&self.gate.address, "POST", "/idempotent/hold", &fields("acme", "a1"));
        self.service.arrival();
        self.service.release();
        assert_eq!(repeat.answer().status(), 201, "taken over");
        self.wait_for_alerts(&["OncegateTakeovers"]);
        let unknown = api(&self.gate, "/api/records?state=unknown");
        for record in unknown["records"].as_array().unwrap() {
            let order = json!({ "fence": record["fence"], "reason": "the test says so" });
            command(&self.gate, &format!("/api/records/{}/release", record["record"].as_str().unwrap()), &order);
        }
        self.wait("nothing fires any more", |incident| incident.prometheus.firing().unwrap().is_empty());
    }
}

#[test]
fn every_alert_fires_and_clears_again_and_every_metric_moves() {
    let mut incident = Incident::start();
    incident.clients_err();
    incident.an_answer_is_lost();
    incident.a_gate_dies();
    incident.wait_for_alerts(&[
        "OncegateSuspectedDuplicates",
        "OncegateSuspectedAnonymous",
        "OncegateSplitScopes",
        "OncegateUncooperative",
    ]);
    incident.a_request_takes_long();
    incident.the_configuration_is_broken();
    incident.the_store_is_slow();
    incident.the_front_hangs();
    incident.the_store_is_gone();
    incident.an_outbox_is_in_trouble();
    incident.wait("what has expired is reaped", |incident| incident.metrics().contains("what=\"expired\""));
    incident.people_clean_up();

    let expected = alerts();
    let fired: BTreeSet<_> = incident.prometheus.fired().unwrap().into_iter().collect();
    assert_eq!(fired, expected);
    assert_eq!(incident.seen.unmoved(), UNMOVED.into());
    assert_exported(&incident.metrics());
    let suspected = api(&incident.gate, "/api/suspected");
    let scopes: Vec<_> = suspected["suspected"].as_array().unwrap().iter().map(|pair| &pair["scope"]).collect();
    assert!(scopes.contains(&&json!("known")) && scopes.contains(&&json!("anonymous")), "{suspected}");
}
