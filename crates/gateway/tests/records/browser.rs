//! The page for operators, in a real browser, on two gates that share a PostgreSQL.

use std::{fs, path::Path, time::Instant};

use crate::{
    process::Gate,
    servers::{chromium::Chromium, postgres::PostgresServer},
    service::{Service, pay, pay_until},
};

/// Where the screenshots are.
const PICTURES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/admin-page");

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const BODY: &str = r#"{"payment":"pay_3"}"#;

/// Whom `records list` would show like this too.
const TENANT: &str = "acme <b>&amp;";

/// A gate whose page asks for a token, and another one, on the same store.
fn gates(service: &Service, server: &PostgresServer) -> (Gate, Gate) {
    server.create_database("shop").unwrap();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/shop");
    let shown = [("ONCEGATE__ADMIN__TOKEN", TOKEN), ("ONCEGATE__ADMIN__SHOW_BODIES", "true")];
    let first = service.gate_with(&["--store", &store], &shown);
    (first, service.gate_on(&["--store", &store]))
}

/// What makes charts and tables: answers of each kind.
fn incident(service: &Service, (first, second): (&Gate, &Gate)) {
    for key in ["ord-1", "ord-2", "ord-3"] {
        assert_eq!((pay(first, "globex", key).status(), pay(second, "globex", key).status()), (201, 201));
    }
    service.lose_answers(true);
    for (tenant, key) in [(TENANT, "ord-1043"), (TENANT, "<script>alert(1)</script>"), ("globex", "ord-1044")] {
        assert_eq!(pay(first, tenant, key).status(), 502);
        assert_eq!(pay(first, tenant, key).status(), 409);
    }
    service.lose_answers(false);
    assert_eq!(pay(second, TENANT, "ord-1043").status(), 409, "nobody knows at the other gate either");
}

/// Looks at the page on a wide and on a narrow screen, light and dark; nothing may stick out.
fn photograph(browser: &mut Chromium, page: &str) {
    for screen in [(1280, false), (390, true)] {
        for scheme in ["light", "dark"] {
            browser.look(screen, scheme).unwrap();
            let file = format!("{page}-{}-{scheme}.png", screen.0);
            browser.screenshot(&Path::new(PICTURES).join(file)).unwrap();
        }
        let width = browser.evaluate("document.documentElement.scrollWidth").unwrap();
        assert!(width.as_u64().unwrap() <= screen.0.into(), "{page} is {width} wide on a screen of {}", screen.0);
    }
    browser.look((1280, false), "light").unwrap();
}

/// What stands in the first element that a selector finds.
fn text_of(browser: &mut Chromium, selector: &str) -> String {
    let text = browser.evaluate(&format!("document.querySelector('{selector}').innerText")).unwrap();
    text.as_str().unwrap().to_owned()
}

fn sign_in(browser: &mut Chromium, gate: &Gate) {
    browser.open(&format!("http://{}/records?scope=acme", gate.admin)).unwrap();
    assert_eq!(text_of(browser, "h1"), "Sign in");
    photograph(browser, "sign-in");
    browser.fill("#token", "not the token, which is longer").unwrap();
    browser.loading(|browser| browser.press("Enter")).unwrap();
    assert!(text_of(browser, "[role=alert]").contains("not the token"));
    browser.fill("#token", TOKEN).unwrap();
    browser.loading(|browser| browser.press("Enter")).unwrap();
    assert_eq!(browser.evaluate("location.pathname + location.search").unwrap(), "/records?scope=acme");
    assert_eq!(browser.evaluate("document.cookie").unwrap(), "", "no script reads the session");
}

/// From the overview to the record, by keys alone where that is the way of somebody without a mouse.
fn find_the_record(browser: &mut Chromium, gate: &Gate) {
    browser.open(&format!("http://{}/", gate.admin)).unwrap();
    browser.press("Tab").unwrap();
    assert_eq!(browser.evaluate("document.activeElement.className").unwrap(), "skip");
    browser.press("Enter").unwrap();
    browser.wait_until("document.activeElement.id === 'main'").unwrap();
    // The script draws what the samples say, and the census is five seconds behind at most.
    browser.wait_until("document.querySelectorAll('path.line.executed').length === 1").unwrap();
    browser.wait_until("/unknown\\s*3/.test(document.querySelector('.numbers').innerText)").unwrap();
    // Three equal payments of one caller under three keys.
    browser.wait_until("document.querySelectorAll('[aria-labelledby=suspected] tbody tr').length > 1").unwrap();
    photograph(browser, "overview");

    browser.loading(|browser| browser.click("nav a[href='/records']")).unwrap();
    browser.fill("#scope", "acme").unwrap();
    browser.fill("#key", "ord-1043").unwrap();
    browser.loading(|browser| browser.press("Enter")).unwrap();
    assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr').length").unwrap(), 1);
    browser.fill("#key", "").unwrap();
    browser.loading(|browser| browser.press("Enter")).unwrap();
    assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr').length").unwrap(), 2);
    let row = text_of(browser, "tbody");
    assert!(row.contains("<script>alert(1)</script>") && row.contains(TENANT), "{row}");
    photograph(browser, "records");
    browser.loading(|browser| browser.click("tbody a")).unwrap();
}

fn resolve_it(browser: &mut Chromium) {
    assert!(text_of(browser, "main").contains("reset"), "what was learnt");
    browser.evaluate("document.querySelector('#resolve-status').closest('details').open = true").unwrap();
    photograph(browser, "record");
    browser.fill("#resolve-status", "201").unwrap();
    browser.fill("#resolve-body", BODY).unwrap();
    browser.fill("#resolve-reason", "payment pay_3 exists at the provider").unwrap();
    browser.fill("#resolve-operator", "ada").unwrap();
    browser.loading(|browser| browser.click("form[action$='/resolve'] button")).unwrap();
}

#[test]
fn an_operator_settles_an_unknown_record_in_a_browser_and_another_gate_replays_it() {
    fs::create_dir_all(PICTURES).unwrap();
    let (service, server) = (Service::start(), PostgresServer::start().unwrap());
    let (first, second) = gates(&service, &server);
    incident(&service, (&first, &second));
    let executions = service.executions();
    let mut browser = Chromium::start().unwrap();
    browser.look((1280, false), "light").unwrap();
    sign_in(&mut browser, &first);
    find_the_record(&mut browser, &first);
    resolve_it(&mut browser);
    let resolved = Instant::now();

    assert!(text_of(&mut browser, ".done").starts_with("Resolved"));
    let audit = text_of(&mut browser, "tbody");
    assert!(audit.contains("ada") && audit.contains("payment pay_3 exists at the provider"), "{audit}");
    assert!(text_of(&mut browser, "pre").contains(BODY));
    pay_until(&second, (TENANT, "ord-1043"), BODY);
    eprintln!("the other gate replayed it {:?} after the page said so", resolved.elapsed());
    assert_eq!(pay(&second, TENANT, "ord-1043").field("idempotent-replayed"), Some("true"));
    assert_eq!(service.executions(), executions);
    photograph(&mut browser, "resolved");
    browser.loading(|browser| browser.click("nav a[href='/audit']")).unwrap();
    assert!(text_of(&mut browser, "tbody").contains("resolve"));
    photograph(&mut browser, "audit");
    browser.loading(|browser| browser.click(".leave button")).unwrap();
    browser.open(&format!("http://{}/audit", first.admin)).unwrap();
    assert_eq!(text_of(&mut browser, "h1"), "Sign in", "signed out");

    let own = format!("http://{}/", first.admin);
    let foreign: Vec<_> =
        browser.requested().into_iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
    assert!(foreign.is_empty(), "the page needs {foreign:?}");
    assert!(!browser.requested().concat().contains(TOKEN), "no token in an address");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
