//! Reading as a whole; the real binary is asked in `tests/config.rs`.

use std::collections::BTreeMap;

use http::Method;
use oncegate_core::{Backend, Disposition, OnAbandoned};
use oncegate_tower::route::{Anonymous, KeySource, ScopePart};

use super::{section::SectionName, *};

mod secrets;

const UPSTREAM_LINE: &str = "upstream = \"http://127.0.0.1:8000\"\n";

/// Reads a file's text below the one line that every configuration needs.
fn load(text: &str) -> Result<Config, String> {
    load_with(&format!("{UPSTREAM_LINE}{text}"), &[])
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let file = Table::parse("oncegate.toml", text).map_err(|fault| fault.to_string())?;
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    read(file, variables, &Sources::default()).map_err(|faults| faults.to_string())
}

fn faults(text: &str) -> String {
    load(text).expect_err(text)
}

fn route<'a>(config: &'a Config, name: &str) -> &'a Route {
    config.routes.iter().map(|(_, route)| &**route).find(|route| &*route.name == name).expect(name)
}

#[test]
fn only_the_upstream_must_be_named() {
    let config = load("").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.store.address.to_string(), "sqlite://oncegate.db");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let expected = "upstream is not set: name the service to guard, such as --upstream http://127.0.0.1:8000";
    assert_eq!(load_with("", &[]).unwrap_err(), expected);
}

#[test]
fn the_defaults_are_those_of_the_layer() {
    let config = load("").unwrap();
    let (ours, theirs) = (route(&config, "defaults"), Route::gateway("defaults", Backend::Plain));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

#[test]
fn every_key_of_a_route_reaches_the_route() {
    let config = load(
        r#"
        [[secrets]]
        id = "new"
        value = "a secret of 16 bytes"
        [[secrets]]
        id = "old"
        value = "another secret of 16 bytes"
        [[route]]
        name = "payments"
        match = "PUT /api/payments/*"
        backend = "idempotent"
        on_abandoned = "unknown"
        max_attempts = 3
        methods = ["PUT", "DELETE"]
        required = true
        key = "header:PayPal-Request-Id"
        scope = ["header:X-Org", "cookie:sid", "route", "header:Authorization"]
        anonymous = "reject"
        fingerprint = "meaning"
        ignore = ["/sent_at"]
        lease = "20s"
        retention = "48h"
        wait = "2s"
        fail_open = true
        store_body = false
        max_request_body = "1MiB"
        max_stored_body = 2000
        replay_headers = ["X-Request-Cost"]
        statuses = { release = [409], store = [429], ambiguous = [500] }
        upstream_timeout = "10s"
        idle_timeout = "11s"
        "#,
    );
    let config = config.unwrap();
    let route = route(&config, "payments");
    let policy = &route.policy;
    assert_eq!((policy.backend, policy.on_abandoned), (Backend::Idempotent, OnAbandoned::Unknown));
    assert_eq!((policy.max_attempts, route.required, route.fail_open, route.store_body), (3, true, true, false));
    assert_eq!(route.methods, [Method::PUT, Method::DELETE]);
    assert_eq!(route.key, KeySource::Header("paypal-request-id".parse().unwrap()));
    let scope = ["header:x-org", "cookie:sid", "route", "authorization"];
    assert_eq!(route.scope.iter().map(scope_part_text).collect::<Vec<_>>(), scope);
    assert_eq!(route.anonymous, Anonymous::Reject);
    assert_eq!((policy.lease.as_secs(), policy.retention.as_secs(), route.wait.as_secs()), (20, 48 * 3600, 2));
    assert_eq!((route.max_request_body, route.max_stored_body), (1 << 20, 2000));
    assert_eq!(route.rules.decoded_bytes_max(), 1 << 20, "a body counts decoded, too");
    assert_eq!(route.replay_headers, ["x-request-cost"]);
    assert_eq!(policy.disposition(409), Disposition::Release);
    assert_eq!(policy.disposition(429), Disposition::Store);
    assert_eq!(policy.disposition(500), Disposition::Ambiguous);
    assert_eq!((route.upstream_timeout.as_secs(), route.idle_timeout.as_secs()), (10, 11));
    assert_eq!(route.superseded_rules.len(), 4, "of the old secret and of none, its own and those of the defaults");
    let scope_secret: &[u8] = route.scope_secret.as_deref().unwrap();
    assert_eq!(scope_secret, b"another secret of 16 bytes", "a new secret in front changes no scope");
}

#[test]
fn routes_inherit_what_the_defaults_say() {
    let config = load(
        r#"
        [defaults]
        wait = "1s"
        retention = "2h"
        backend = "idempotent"
        on_abandoned = "unknown"
        [[route]]
        name = "a"
        match = "* /a"
        retention = "3h"
        [[route]]
        name = "b"
        match = "DELETE /b"
        backend = "plain"
        [[route]]
        name = "c"
        match = "POST /c"
        backend = "transactional"
        "#,
    );
    let config = config.unwrap();
    let (a, b, c) = (route(&config, "a"), route(&config, "b"), route(&config, "c"));
    assert_eq!((a.wait.as_secs(), a.policy.retention.as_secs()), (1, 3 * 3600));
    assert_eq!((a.policy.backend, a.policy.on_abandoned), (Backend::Idempotent, OnAbandoned::Unknown));
    assert_eq!(a.methods, [Method::POST, Method::PATCH]);
    assert_eq!(b.methods, [Method::DELETE], "a match that names a method opts it in");
    assert_eq!(c.policy.on_abandoned, OnAbandoned::Takeover, "a backend of its own brings its own rule");
}

#[test]
fn a_takeover_is_not_inherited_by_a_plain_backend() {
    let config = load(
        r#"
        [defaults]
        backend = "idempotent"
        on_abandoned = "takeover"
        [[route]]
        name = "a"
        match = "POST /a"
        backend = "plain"
        "#,
    );
    assert_eq!(route(&config.unwrap(), "a").policy.on_abandoned, OnAbandoned::Unknown);
}

#[test]
fn transactional_leases_cover_the_upstreams_timeout() {
    let lease = |text: &str| load(text).map(|config| route(&config, "defaults").policy.lease.as_secs());
    assert_eq!(lease("[defaults]\nbackend = \"transactional\""), Ok(65));
    assert_eq!(lease("[defaults]\nbackend = \"transactional\"\nupstream_timeout = \"2s\""), Ok(7));
    assert_eq!(lease("[defaults]\nbackend = \"transactional\"\nlease = \"10s\""), Ok(10));
    assert_eq!(lease("[defaults]\nbackend = \"idempotent\"\nupstream_timeout = \"2m\""), Ok(30));
}

#[test]
fn unknown_keys_are_refused_with_what_was_meant() {
    let expected = "oncegate.toml:3:1: [defaults] unknown key \"leese\": did you mean \"lease\"?";
    assert_eq!(faults("[defaults]\nleese = \"30s\""), expected);
    assert_eq!(faults("[store]\nulr = \"x\""), "oncegate.toml:3:1: [store] unknown key \"ulr\": did you mean \"url\"?");
    assert_eq!(faults("[admni]\n"), "oncegate.toml:2:2: unknown key \"admni\": did you mean \"admin\"?");
    let nothing_near = faults("[admin]\nqqq = 1");
    assert_eq!(
        nothing_near,
        "oncegate.toml:3:1: [admin] unknown key \"qqq\": allowed are listen, token, token_file, show_bodies"
    );
    let in_route = faults("[[route]]\nname = \"a\"\nmatch = \"POST /a\"\nwiat = \"1s\"");
    assert_eq!(in_route, "oncegate.toml:5:1: [[route]] a: unknown key \"wiat\": did you mean \"wait\"?");
}

#[test]
fn faulty_values_are_named_with_what_is_allowed_and_all_at_once() {
    let text = r#"
[defaults]
lease = "banana"
retention = "500 days"
backend = "plian"
max_attempts = 0
required = "yes"
key = "cookie:x"
scope = ["jwt:sub"]
ignore = "/a"
max_request_body = "10 parsecs"
replay_headers = ["Set-Cookie"]
statuses = { release = [700] }
methods = ["get", "GET"]
"#;
    let found = faults(text);
    let expected = [
        r#"oncegate.toml:4:9: lease: "banana" is not a duration (expected number at 0): write a number with a unit in quotes, such as "500ms", "30s" or "24h""#,
        r#"oncegate.toml:5:13: retention: "500 days" is out of range: 100ms to 400d are allowed"#,
        r#"oncegate.toml:6:11: backend: "plian" is not allowed: write "plain" or "idempotent" or "transactional""#,
        r"oncegate.toml:7:16: max_attempts: 0 is not allowed: write a whole number from 1 to 1000",
        r#"oncegate.toml:8:12: required: "yes" is not allowed: write true or false"#,
        r#"oncegate.toml:9:7: key: "cookie:x" does not say where the key is: write "header:NAME", or "body:/POINTER" for a member of a JSON body"#,
        r#"oncegate.toml:10:10: scope: "jwt:sub" is not supported in this version: write "authorization", "header:NAME", "cookie:NAME" or "route""#,
        r#"oncegate.toml:11:10: ignore: "/a" is not a list: write a list, such as ["a", "b"]"#,
        r#"oncegate.toml:12:20: max_request_body: "10 parsecs" is not a size: write a number of bytes, or a whole number with KiB, MiB or GiB, such as "10MiB""#,
        r#"oncegate.toml:13:19: replay_headers: "Set-Cookie" is never replayed: it belongs to one exchange, one session or one connection"#,
        r"oncegate.toml:14:25: statuses: 700 is not allowed: write a whole number from 200 to 599",
        r#"oncegate.toml:15:12: methods: "get" is not a method: write one in upper case, such as "POST""#,
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    assert!(faults("[defaults]\nmethods = [\"GET\"]").contains("never guarded"));
    assert!(faults("[defaults]\nstatuses = { release = [500], store = [500] }").contains("status 500 stands twice"));
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let outlives = faults("[defaults]\nretention = \"10s\"");
    assert!(outlives.starts_with("oncegate.toml:3:13: lease length 30s is longer than retention 10s"), "{outlives}");
    let bytes = faults("[defaults]\nfingerprint = \"bytes\"\nignore = [\"/a\"]");
    assert!(bytes.starts_with("oncegate.toml:4:10: ignore: "), "{bytes}");
}

#[test]
fn addresses_that_are_one_are_refused() {
    let same = faults("listen = \"127.0.0.1:8000\"");
    assert_eq!(
        same,
        "oncegate.toml:1:12: upstream http://127.0.0.1:8000 is this gate's own listen: it would call itself"
    );
    assert!(faults("listen = \"127.0.0.1:8081\"").starts_with("[admin] listen 127.0.0.1:8081 is listen too"));
    assert!(load("listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"").is_ok(), "two free ports");
}

#[test]
fn syntax_errors_have_a_place() {
    let error = load_with("upstream = \nlisten = 1", &[]).unwrap_err();
    assert!(error.starts_with("oncegate.toml:1:12: "), "{error}");
    let error = load_with("[admin]\nlisten = \"ж\" x", &[]).unwrap_err();
    assert!(error.starts_with("oncegate.toml:2:14: "), "columns count characters: {error}");
}

#[test]
fn routes_must_have_names_and_matches_of_their_own() {
    let nameless = faults("[[route]]\nmatch = \"POST /a\"");
    assert!(nameless.starts_with("oncegate.toml:2:1: [[route]] name is not set"), "{nameless}");
    let route = |name: &str, matcher: &str| format!("[[route]]\nname = {name:?}\nmatch = {matcher:?}\n");
    let twice = faults(&format!("{}{}", route("a-b", "POST /a"), route("a_b", "POST /b")));
    assert_eq!(twice, "oncegate.toml:6:8: the name \"a_b\" is taken by \"a-b\", oncegate.toml:3:8");
    let covered = faults(&format!("{}{}", route("a", "* /a"), route("b", "PUT /a")));
    assert!(covered.contains("\"b\" is never reached: \"a\" matches the same before it"), "{covered}");
    assert!(load(&format!("{}{}", route("a", "POST /a"), route("b", "PUT /a"))).is_ok());
    for matcher in ["/a", "post /a", "POST a", "POST /a/**/b", ""] {
        assert!(faults(&route("a", matcher)).contains("write a method or *, a space and a path"), "{matcher}");
    }
    assert!(faults(&route("defaults", "POST /a")).contains("another name"));
    assert!(faults(&route("a b", "POST /a")).contains("is not a route's name"));
}

#[test]
fn variables_win_over_the_file() {
    let text = format!(
        "{UPSTREAM_LINE}[defaults]\nlease = \"10s\"\n[[route]]\nname = \"pay-in\"\nmatch = \"POST /a\"\nwait = \"1s\"\n"
    );
    let variables = [
        ("ONCEGATE__UPSTREAM", "http://127.0.0.1:9"),
        ("ONCEGATE__DEFAULTS__LEASE", "20s"),
        ("ONCEGATE__DEFAULTS__MAX_ATTEMPTS", "7"),
        ("ONCEGATE__DEFAULTS__REQUIRED", "true"),
        ("ONCEGATE__DEFAULTS__MAX_REQUEST_BODY", "1024"),
        ("ONCEGATE__DEFAULTS__SCOPE", r#"["header:X-Org"]"#),
        ("ONCEGATE__DEFAULTS__STATUSES__RELEASE", "[409]"),
        ("ONCEGATE__ROUTE__PAY_IN__WAIT", "3s"),
        ("ONCEGATE__STORE__URL", "memory://single-process"),
        ("ONCEGATE_CONFIG", "not one of the keys"),
    ];
    let config = load_with(&text, &variables).unwrap();
    let (defaults, pay_in) = (route(&config, "defaults"), route(&config, "pay-in"));
    assert_eq!(config.upstream.to_string(), "http://127.0.0.1:9");
    assert_eq!(config.store.address, StoreAddress::Memory);
    assert_eq!((defaults.policy.lease.as_secs(), defaults.policy.max_attempts, defaults.required), (20, 7, true));
    assert_eq!(defaults.max_request_body, 1024);
    assert_eq!(defaults.scope, [ScopePart::Header("x-org".parse().unwrap())]);
    assert_eq!(defaults.policy.disposition(409), Disposition::Release);
    assert_eq!((pay_in.wait.as_secs(), pay_in.policy.lease.as_secs()), (3, 20));
}

#[test]
fn variables_can_bring_whole_lists() {
    let variables = [
        ("ONCEGATE__ROUTE", r#"[{ name = "a", match = "POST /a" }, { name = "b", match = "POST /b" }]"#),
        ("ONCEGATE__ROUTE__B__WAIT", "1s"),
        ("ONCEGATE__SECRETS", r#"[{ id = "2026-11", value = "a secret of 16 bytes" }]"#),
        ("ONCEGATE__SECRETS__2026_11__VALUE", "another secret of 16 bytes"),
    ];
    let config = load_with(UPSTREAM_LINE, &variables).unwrap();
    assert_eq!((route(&config, "a").wait.as_secs(), route(&config, "b").wait.as_secs()), (0, 1));
    assert_eq!(route(&config, "a").scope_secret.as_deref(), Some(&b"another secret of 16 bytes"[..]));
}

#[test]
fn faulty_variables_are_named() {
    let refused = |name: &str, value: &str| load_with(UPSTREAM_LINE, &[(name, value)]).expect_err(name);
    let lease = refused("ONCEGATE__DEFAULTS__LEASE", "banana");
    assert!(
        lease.starts_with("environment variable ONCEGATE__DEFAULTS__LEASE: \"banana\" is not a duration"),
        "{lease}"
    );
    let meant = refused("ONCEGATE__STOER__URL", "x");
    assert_eq!(meant, "environment variable ONCEGATE__STOER__URL: no such setting: did you mean ONCEGATE__STORE__URL?");
    let meant = refused("ONCEGATE__DEFAULTS__LEESE", "x");
    assert!(meant.ends_with("did you mean ONCEGATE__DEFAULTS__LEASE?"), "{meant}");
    let absent = refused("ONCEGATE__ROUTE__PAY__WAIT", "1s");
    assert!(absent.ends_with("it changes one [[route]], and none is configured"), "{absent}");
    let list = load_with(
        &format!("{UPSTREAM_LINE}[[route]]\nname = \"a\"\nmatch = \"POST /a\""),
        &[("ONCEGATE__ROUTE__B__WAIT", "1s")],
    );
    assert!(list.unwrap_err().ends_with("no [[route]] is called B: A"));
    assert!(refused("ONCEGATE__LISTEN__PORT", "1").starts_with("environment variable ONCEGATE__LISTEN__PORT: "));
    assert!(refused("ONCEGATE__DEFAULTS__MAX_ATTEMPTS", "many").contains("\"many\" is not allowed"));
}

#[test]
fn what_means_nothing_for_a_store_is_refused_and_not_ignored() {
    for (text, reason) in [
        ("[store]\noutbox_limit = \"1s\"", "outbox_limit is for durability = \"outbox\""),
        ("[store]\ndurability = \"outbox\"", "is for a store with a front"),
        ("[store]\nmigrate = false", "is for a PostgreSQL store"),
    ] {
        assert!(faults(text).contains(reason), "{text}: {}", faults(text));
    }
}

#[test]
fn a_redis_alone_is_taken_only_by_who_says_that_it_may_forget() {
    let redis = "[store]\nurl = \"redis://ada:hunter2@cache\"\n";
    let refused = faults(redis);
    assert!(refused.contains("best_effort = true") && !refused.contains("hunter2"), "{refused}");
    let config = load(&format!("{redis}best_effort = true")).unwrap();
    assert_eq!(config.store.redis.cold, std::time::Duration::from_secs(30));
    assert!(config.warnings[0].contains("not where a duplicate costs money"), "{:?}", config.warnings);
    let risky = format!("{redis}best_effort = true\ncold = \"0s\"\nwait_replicas = 2\nallow_eviction = true");
    let warned = load(&risky).unwrap().warnings.join("\n");
    assert!(warned.contains("cold = \"0s\"") && warned.contains("allow_eviction = true"), "{warned}");
    for key in ["best_effort = true", "cold = \"1s\"", "wait_replicas = 1", "allow_eviction = true"] {
        assert!(faults(&format!("[store]\n{key}")).contains("is for a Redis store"), "{key}");
    }
}

#[test]
fn a_front_stands_before_postgresql_only() {
    let front = "front = \"redis-cluster://ada:hunter2@a,b\"";
    let config =
        load(&format!("[store]\nurl = \"postgres://db/shop\"\n{front}\ndurability = \"authoritative\"")).unwrap();
    assert_eq!(config.store.front.as_ref().unwrap().address.to_string(), "redis-cluster://ada@a:6379,b:6379");
    assert!(config.print().contains("front = ") && !config.print().contains("hunter2"), "{}", config.print());
    let refused = faults(&format!("[store]\n{front}"));
    assert!(refused.contains("front stands before a PostgreSQL store") && !refused.contains("hunter2"), "{refused}");
    assert!(faults("[store]\nfront = \"postgres://db/shop\"").contains("address of Redis"));
}

#[test]
fn an_outbox_does_not_go_with_a_backend_that_completes_records_itself() {
    let outbox = "[store]\nurl = \"postgres://db/shop\"\nfront = \"redis://a\"\ndurability = \"outbox\"\noutbox_limit = \"5s\"\n";
    let config = load(outbox).unwrap();
    assert_eq!(config.store.front.unwrap().outbox_limit, std::time::Duration::from_secs(5));
    for route in ["[defaults]\n", "[[route]]\nname = \"a\"\nmatch = \"POST /a\"\n"] {
        let refused = faults(&format!("{outbox}{route}backend = \"transactional\""));
        assert!(refused.contains("does not go with backend = \"transactional\""), "{refused}");
        assert!(load(&format!("{outbox}{route}backend = \"idempotent\"")).is_ok());
    }
}

#[test]
fn the_admin_listener_needs_a_token_beyond_this_machine() {
    assert!(load("[admin]\nlisten = \"[::1]:0\"").is_ok());
    let refused = faults("[admin]\nlisten = \"0.0.0.0:8081\"");
    assert!(refused.starts_with("oncegate.toml:3:10: [admin] listen 0.0.0.0:8081 can be reached"), "{refused}");
    let short = faults("[admin]\nlisten = \"0.0.0.0:8081\"\ntoken = \"hunter2\"");
    assert!(short.contains("at least 32 are needed") && !short.contains("hunter2"), "{short}");
    let token = "0123456789abcdef0123456789abcdef";
    let config = load(&format!("[admin]\nlisten = \"0.0.0.0:8081\"\ntoken = \"{token}\"")).unwrap();
    let ours = config.admin.token.unwrap();
    assert!(ours.is(token.as_bytes()) && !ours.is(b"") && !ours.is(&token.as_bytes()[1..]));
}

#[test]
fn risky_choices_are_warned_about() {
    let warnings = |text: &str| load(text).unwrap().warnings.join("\n");
    for (text, expected) in [
        ("on_abandoned = \"takeover\"", "before a plain backend"),
        ("fail_open = true", "executes every repeat"),
        ("anonymous = \"share\"", "each other's responses"),
        ("scope = [\"route\"]", "one space of keys"),
        ("statuses = { release = [502] }", "releases [502]"),
        ("backend = \"transactional\"", "cannot in sqlite://oncegate.db"),
    ] {
        let found = warnings(&format!("[defaults]\n{text}"));
        assert!(found.contains(expected) && found.lines().count() == 1, "{text}: {found}");
    }
    let postgres = "[store]\nurl = \"postgres://localhost/shop\"\n[defaults]\nbackend = \"transactional\"\n";
    assert_eq!(warnings(postgres), "");
    assert!(warnings(&format!("{postgres}lease = \"1s\"")).contains("shorter than upstream_timeout"));
    let route = "[[route]]\nname = \"a\"\nmatch = \"PUT /a\"\nmethods = [\"POST\"]";
    assert!(warnings(route).contains("guards nothing"));
    assert!(warnings("[store]\nurl = \"memory://single-process\"").contains("a restart forgets every key"));
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    let text = r#"
        [defaults]
        ignore = ["/a/b"]
        statuses = { release = [429], store = [500] }
        max_stored_body = 1500
        wait = "1500ms"
        [[route]]
        name = "a"
        match = "* /a/**"
        key = "body:/id"
        scope = ["cookie:sid", "route"]
        "#;
    let printed = load(text).unwrap().print();
    let again = load_with(&printed, &[]).expect(&printed);
    let values = |printed: &str| -> Vec<String> {
        printed.lines().map(|line| line.split("  # ").next().unwrap_or_default().trim().to_owned()).collect()
    };
    assert_eq!(values(&again.print()), values(&printed));
    assert!(printed.contains("# oncegate.toml:4:18"), "{printed}");
}

#[test]
fn origins_are_printed() {
    let mut sources = Sources { listen: Some("127.0.0.1:1".to_owned()), ..Sources::default() };
    sources.admin = Some("127.0.0.1:2".to_owned());
    let variables = [("ONCEGATE__STORE__TIMEOUT", "1s"), ("ONCEGATE__LISTEN", "127.0.0.1:3")];
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    let printed = read(Table::parse("f.toml", UPSTREAM_LINE).unwrap(), variables, &sources).unwrap().print();
    let line = |key: &str| printed.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("upstream").ends_with("# f.toml:1:12"));
    assert!(line("listen = \"127.0.0.1:1\"").ends_with("# --listen"), "a flag wins: {printed}");
    assert!(line("timeout").ends_with("# ONCEGATE__STORE__TIMEOUT"));
    assert!(line("cache_bytes").ends_with("# default"));
    assert!(line("# token ").ends_with("# not set"));
}

/// Every key and its default, as reading an empty file finds them.
fn keys() -> BTreeMap<(String, &'static str), Option<String>> {
    let text = "[[secrets]]\nid = \"a\"\nvalue = \"a secret of 16 bytes\"\n[[route]]\nname = \"a\"\nmatch = \"* /a\"";
    let keys = load(text).unwrap().effective;
    let table = |section: SectionName| match section {
        SectionName::Top => String::new(),
        SectionName::Table(name) => name.to_owned(),
        SectionName::Member { list, .. } => list.to_owned(),
    };
    keys.into_iter().map(|key| ((table(key.section), key.name), key.shown)).collect()
}

#[test]
fn the_documentation_has_every_key_with_its_default() {
    let documentation = include_str!("../../../../docs/configuration.md");
    let mut section = String::new();
    let mut documented = BTreeMap::new();
    for line in documentation.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.trim_matches(['`', '[', ']']).clone_into(&mut section);
        }
        let Some(key) = line.strip_prefix("### `").and_then(|rest| rest.split('`').next()) else { continue };
        let name = section.strip_prefix("Top level").map_or(section.as_str(), |_| "").to_owned();
        documented.insert((name, key.to_owned()), line.to_owned());
    }
    for ((table, key), default) in keys() {
        if table == "route" && !matches!(key, "name" | "match") {
            continue; // They stand under [defaults].
        }
        let line = documented.remove(&(table.clone(), key.to_owned()));
        let line = line.unwrap_or_else(|| panic!("docs/configuration.md lacks {key} of [{table}]"));
        let is_given = matches!((&*table, key), ("", "upstream") | ("secrets" | "route", _));
        let expected = default.filter(|_| !is_given).map_or(String::new(), |default| format!(" = `{default}`"));
        assert_eq!(line, format!("### `{key}`{expected}"), "[{table}]");
    }
    assert!(documented.is_empty(), "docs/configuration.md has keys that do not exist: {:?}", documented.keys());
}
