//! The page of the admin listener, as what is sent and answered.

use std::{io::Write as _, net::TcpStream};

use serde_json::{Value, json};

use crate::{
    http::{self, Message},
    process::{Gate, PATIENCE},
    service::{Service, pay, pay_until},
};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Sends a request as a browser does that shows a page of this listener.
fn browse(gate: &Gate, method: &str, path: &str, fields: &str, body: &str) -> Message {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = if fields.contains("Host: ") { String::new() } else { format!("Host: {}\r\n", gate.admin) };
    let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{fields}");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    http::read(&mut stream).unwrap()
}

fn look(gate: &Gate, path: &str) -> Message {
    browse(gate, "GET", path, "", "")
}

fn json_of(gate: &Gate, path: &str) -> Value {
    serde_json::from_str(&look(gate, path).body).unwrap()
}

fn form(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&")
}

/// The value of a hidden member of the first form that has it.
fn hidden(page: &str, name: &str) -> String {
    let (_, behind) =
        page.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("no {name} in {page}"));
    behind.split('"').next().unwrap().to_owned()
}

/// A gate with an unknown record, and the record's address.
fn unknown(service: &Service, (tenant, key): (&str, &str)) -> (Gate, String) {
    let gate = service.gate();
    service.lose_answers(true);
    assert_eq!(pay(&gate, tenant, key).status(), 502);
    service.lose_answers(false);
    let listed = json_of(&gate, "/api/records?state=unknown");
    let record = listed["records"][0]["record"].as_str().unwrap();
    (gate, format!("/records/{record}"))
}

fn audit(gate: &Gate) -> Value {
    json_of(gate, "/api/audit")["audit"].take()
}

#[test]
fn the_page_shows_what_waits_and_what_may_be_done() {
    let service = Service::start();
    let (gate, record) = unknown(&service, ("acme", "K1"));
    let overview = look(&gate, "/");
    assert_eq!((overview.status(), overview.field("content-type")), (200, Some("text/html; charset=utf-8")));
    for expected in [&*format!("href=\"{record}\""), "x-org=4:acme", "<code>K1</code>", "reset", "/metrics", "/healthz"]
    {
        assert!(overview.body.contains(expected), "no {expected} in {}", overview.body);
    }
    let page = look(&gate, &record).body;
    assert!(page.contains("/resolve\"") && page.contains("/release\"") && !page.contains("/purge\""), "{page}");
    assert!(look(&gate, "/records?scope=acme&key=K1&state=").body.contains("1 record."));
    assert!(look(&gate, &format!("/records?key={}", &record["/records/".len()..][..8])).body.contains("1 record."));
    assert!(look(&gate, "/records?scope=other").body.contains("No record is such a one"));
    let refused = look(&gate, "/records?state=stuck");
    assert!(refused.status() == 400 && refused.body.contains("is not a state"), "{}", refused.body);
    assert_eq!(look(&gate, "/records/00000000").status(), 404);
    assert_eq!(look(&gate, "/nothing").status(), 404);
    let policy = overview.field("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert!(
        !overview.body.contains("<style") && !overview.body.contains("style=") && !overview.body.contains("onclick")
    );
    assert_eq!(overview.field("cache-control"), Some("no-store"));
}

#[test]
fn a_form_resolves_what_is_unknown_and_another_one_purges_it() {
    let service = Service::start();
    let (gate, record) = unknown(&service, ("acme", "K1"));
    let page = look(&gate, &record).body;
    let [seal, fence, state] = ["seal", "fence", "state"].map(|name| hidden(&page, name));
    let seen = [("seal", &*seal), ("fence", &fence), ("state", &state), ("operator", "ada"), ("reason", "found it")];
    let response = [("status", "201"), ("headers", "Content-Type: text/plain"), ("body", "paid after all")];
    let own = format!("{FORM}Origin: http://{}\r\n", gate.admin);
    let done = browse(&gate, "POST", &format!("{record}/resolve"), &own, &form(&[&seen[..], &response].concat()));
    assert_eq!(
        (done.status(), done.field("location")),
        (303, Some(&*format!("{record}?done=resolve"))),
        "{}",
        done.body
    );
    pay_until(&gate, ("acme", "K1"), "paid after all");
    let page = look(&gate, &format!("{record}?done=resolve")).body;
    assert!(page.contains("Resolved:") && page.contains("found it") && page.contains("14 bytes"), "{page}");
    assert!(!page.contains("paid after all"), "never the body by default");
    assert_eq!(look(&gate, &format!("/api{record}?body=true")).status(), 403, "nor for programs");

    let purge = [("seal", &*seal), ("fence", &fence), ("state", "completed"), ("operator", "ada"), ("reason", "wrong")];
    let done = browse(&gate, "POST", &format!("{record}/purge"), &own, &form(&purge));
    assert_eq!(done.status(), 303, "{}", done.body);
    let gone = look(&gate, &format!("{record}?done=purge"));
    assert!(gone.status() == 200 && gone.body.contains("Purged:") && gone.body.contains("found it"), "{}", gone.body);
    assert_eq!(look(&gate, &record).status(), 404);
    assert!(look(&gate, "/audit").body.contains("wrong"));
}

#[test]
fn a_form_that_is_wrong_changes_nothing_and_keeps_what_was_typed() {
    let service = Service::start();
    let (gate, record) = unknown(&service, ("acme", "K1"));
    let page = look(&gate, &record).body;
    let [seal, fence] = ["seal", "fence"].map(|name| hidden(&page, name));
    let right =
        [("seal", &*seal), ("fence", &fence), ("state", "unknown"), ("operator", "ada <i>"), ("reason", "why <i>")];
    let send = |verb: &str, changed: (&str, &str), fields: &str| {
        let mut pairs = right.to_vec();
        pairs.retain(|(name, _)| *name != changed.0);
        pairs.push(changed);
        browse(&gate, "POST", &format!("{record}/{verb}"), fields, &form(&pairs))
    };
    for (verb, changed, status, said) in [
        ("release", ("reason", ""), 400, "the reason has 0 bytes"),
        ("release", ("operator", " "), 400, "the operator has 0 bytes"),
        ("release", ("fence", "999"), 409, "not 999"),
        ("release", ("fence", ""), 400, "fence is not a whole number"),
        ("release", ("state", "in_flight"), 409, "is unknown, not in_flight"),
        ("resolve", ("status", "99"), 400, "not a final one"),
        ("resolve", ("status", ""), 400, "status is not a status"),
        ("purge", ("state", "unknown"), 409, "purge is not for it"),
        // Not made by this page, or made for nobody.
        ("release", ("seal", ""), 403, "not of this page"),
        ("release", ("seal", &seal.replace(|digit: char| digit.is_ascii_digit(), "a")), 403, "not of this page"),
    ] {
        let refused = send(verb, changed, FORM);
        assert_eq!(refused.status(), status, "{verb} {changed:?}: {}", refused.body);
        assert!(
            refused.body.contains(said) && refused.body.contains("Nothing was changed"),
            "{changed:?}: {}",
            refused.body
        );
        assert!(!refused.body.contains("<i>\"") && !refused.body.contains("why <i>"), "{}", refused.body);
    }
    let kept = send("release", ("fence", "999"), FORM).body;
    assert!(kept.contains("value=\"why &lt;i&gt;\"") && kept.contains("value=\"ada &lt;i&gt;\""), "{kept}");
    let marked = send("resolve", ("status", "99"), FORM).body;
    assert!(marked.contains("value=\"99\"") && marked.contains("aria-invalid=\"true\""), "{marked}");
    assert_eq!(send("forget", right[0], FORM).status(), 404);
    assert_eq!(send("release", right[0], "Content-Type: application/json\r\n").status(), 415);
    assert_eq!(audit(&gate), json!([]));
}

#[test]
fn no_other_page_can_use_the_page() {
    let service = Service::start();
    let (gate, record) = unknown(&service, ("acme", "K1"));
    let page = look(&gate, &record).body;
    let [seal, fence] = ["seal", "fence"].map(|name| hidden(&page, name));
    let order =
        form(&[("seal", &seal), ("fence", &fence), ("state", "unknown"), ("operator", "eve"), ("reason", "why")]);
    let release = format!("{record}/release");
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let fields = format!("{FORM}Origin: {origin}\r\n");
        assert_eq!(browse(&gate, "POST", &release, &fields, &order).status(), 403, "{origin}");
    }
    // A name that was made to point here, whose pages are of the same origin as this.
    let rebound = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    assert_eq!(browse(&gate, "POST", &release, &format!("{rebound}{FORM}"), &order).status(), 403);
    for path in ["/", "/records", &record, "/audit", "/charts", "/waiting", "/api/history"] {
        assert_eq!(browse(&gate, "GET", path, rebound, "").status(), 403, "{path}");
    }
    assert_eq!(audit(&gate), json!([]));
    assert_eq!(browse(&gate, "POST", &release, FORM, &order).status(), 303, "it was a right form all the time");
}

#[test]
fn whoever_has_no_token_is_asked_for_it_and_then_led_on() {
    let service = Service::start();
    let gate = service.gate_with(&[], &[("ONCEGATE__ADMIN__TOKEN", TOKEN)]);
    assert_eq!(pay(&gate, "acme", "K1").status(), 201);
    for (path, led) in
        [("/", "/login"), ("/audit", "/login?to=/audit"), ("/records?key=K1", "/login?to=/records%3Fkey%3DK1")]
    {
        let asked = look(&gate, path);
        assert_eq!((asked.status(), asked.field("location")), (303, Some(led)), "{path}");
        assert!(!asked.body.contains("K1"));
    }
    for path in ["/charts", "/waiting", "/api/records", "/api/history", "/metrics", "/nothing"] {
        assert_eq!(look(&gate, path).status(), 401, "{path}");
    }
    assert_eq!(look(&gate, "/login?to=/audit").status(), 200);
    assert_eq!((look(&gate, "/page.css").status(), look(&gate, "/page.js").status()), (200, 200));
    let enter = |token: &str, to: &str| browse(&gate, "POST", "/login", FORM, &form(&[("token", token), ("to", to)]));
    assert_eq!(enter("no", "/").status(), 401);
    assert_eq!(enter(TOKEN, "//evil.example").field("location"), Some("/"));
    let entered = enter(TOKEN, "/records?key=K1");
    assert_eq!((entered.status(), entered.field("location")), (303, Some("/records?key=K1")));
    let cookie = entered.field("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");

    let session = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let page = browse(&gate, "GET", "/records?key=K1", &session, "");
    assert!(page.status() == 200 && page.body.contains("<code>K1</code>"), "{}", page.body);
    let forged = session.replace("oncegate=1", "oncegate=2");
    assert_eq!(browse(&gate, "GET", "/audit", &forged, "").status(), 303);
    let seal = hidden(&page.body, "seal");
    assert_eq!(browse(&gate, "POST", "/logout", &format!("{session}{FORM}"), "").status(), 403);
    let left = browse(&gate, "POST", "/logout", &format!("{session}{FORM}"), &form(&[("seal", &seal)]));
    assert!(left.field("set-cookie").unwrap().contains("Max-Age=0"), "{left:?}");
}

#[test]
fn what_clients_send_is_shown_as_text() {
    let service = Service::start();
    let (gate, record) = unknown(&service, ("\"><img/src=x>", "<script>alert(1)</script>"));
    let release = |page: &str| {
        let [seal, fence] = ["seal", "fence"].map(|name| hidden(page, name));
        let reason = "</td><script>alert(2)</script>";
        let pairs =
            [("seal", &*seal), ("fence", &fence), ("state", "unknown"), ("operator", "'\"<b>"), ("reason", reason)];
        browse(&gate, "POST", &format!("{record}/release"), FORM, &form(&pairs))
    };
    let shown = look(&gate, &record).body;
    let searched = "/records?scope=%22%3E%3Cimg/src%3Dx%3E&key=%3Cscript%3Ealert(1)%3C/script%3E";
    for page in [look(&gate, "/").body, look(&gate, searched).body, shown.clone(), look(&gate, "/waiting").body] {
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("&quot;&gt;&lt;img/src=x&gt;"),
            "{page}"
        );
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    }
    assert_eq!(release(&shown).status(), 303);
    for page in [look(&gate, "/audit").body, look(&gate, &record).body] {
        assert!(
            page.contains("&lt;/td&gt;&lt;script&gt;") && !page.contains("<script>alert") && !page.contains("<b>"),
            "{page}"
        );
    }
    let absent = look(&gate, "/records/%3Cscript%3Ealert(3)%3C%2Fscript%3E").body;
    assert!(!absent.contains("<script>alert"), "{absent}");
}

#[test]
fn the_charts_have_what_was_counted() {
    let service = Service::start();
    let (gate, _) = unknown(&service, ("acme", "K1"));
    let deadline = std::time::Instant::now() + PATIENCE;
    let history = loop {
        assert_eq!((pay(&gate, "acme", "K2").status(), pay(&gate, "acme", "K1").status()), (201, 409));
        let history = json_of(&gate, "/api/history");
        let is_told =
            |line: &Value| line.as_array().and_then(|line| line.last()?.as_f64()).is_some_and(|rate| rate > 0.0);
        if ["replayed", "unknown"].iter().all(|outcome| is_told(&history["outcomes_per_second"][outcome]))
            && is_told(&history["unknown_records"])
        {
            break history;
        }
        assert!(std::time::Instant::now() < deadline, "{history}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(history["in_flight_by_age"][0], json!({ "up_to_seconds": 1, "records": 0 }));
    let moments = history["seconds_ago"].as_array().unwrap().len();
    for line in
        ["/outcomes_per_second/replayed", "/claim_seconds/p99", "/upstream_seconds/median", "/conflict_share/defaults"]
    {
        assert_eq!(history.pointer(line).and_then(Value::as_array).map(Vec::len), Some(moments), "{line}: {history}");
    }
    let charts = look(&gate, "/charts");
    assert!(charts.status() == 200 && charts.body.contains("<path class=\"line replayed\""), "{}", charts.body);
    assert!(!charts.body.contains("<html"), "a part of a page");
}
