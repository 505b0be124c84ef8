//! The admin listener.

use std::fs;

use crate::{
    admin_only::wait_for_metrics,
    backend::Backend,
    http::{get, pay},
    process::{Gate, run, text},
};

#[test]
fn it_says_whether_it_lives_and_is_ready_and_what_it_counted() {
    let backend = Backend::prompt();
    let gate = Gate::start(&backend.url());
    assert_eq!((pay(&gate.address, "k1").status(), pay(&gate.address, "k1").status()), (201, 201));
    assert_eq!(get(&gate.admin, "/healthz", "").status(), 200);
    assert_eq!(get(&gate.admin, "/readyz", "").status(), 200, "the store was asked before the start was over");
    // An execution ends a moment after its answer.
    wait_for_metrics(&gate, &["oncegate_executions 0"]);
    let metrics = get(&gate.admin, "/metrics", "");
    assert_eq!(metrics.field("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    for line in [
        r#"oncegate_requests_total{route="defaults",outcome="executed",status="201"} 1"#,
        r#"oncegate_requests_total{route="defaults",outcome="replayed",status="201"} 1"#,
        "oncegate_store_up 1",
    ] {
        assert!(metrics.body.lines().any(|each| each == line), "no {line} in\n{}", metrics.body);
    }
    assert!(metrics.body.ends_with("# EOF\n"));
    assert_eq!(get(&gate.address, "/metrics", "").body, "paid", "clients reach the service, not this");
}

#[test]
fn a_token_is_asked_for_where_one_is_set() {
    let (backend, directory) = (Backend::prompt(), tempfile::tempdir().unwrap());
    let token = "0123456789abcdef0123456789abcdef";
    fs::write(directory.path().join("token"), format!("{token}\n")).unwrap();
    let gate = Gate::start_in(directory, &backend.url(), &[], &[("ONCEGATE__ADMIN__TOKEN_FILE", "token")]);
    let status = |path: &str, fields: &str| get(&gate.admin, path, fields).status();
    for wrong in ["", "Authorization: Bearer \r\n", "Authorization: Bearer 0123\r\n", "Authorization: Basic 0123\r\n"] {
        assert_eq!(status("/metrics", wrong), 401, "{wrong}");
    }
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!((status("/metrics", &right), status("/", &right)), (200, 200));
    assert_eq!(status("/metrics", &format!("{right}{right}")), 401, "which of two counts, nobody can say");
    assert_eq!((status("/healthz", ""), status("/readyz", "")), (200, 200), "probes have no token");
    assert_eq!(get(&gate.admin, "/metrics", "").field("www-authenticate"), Some("Bearer"));
}

#[test]
fn it_is_not_opened_to_other_machines_without_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["serve", "--upstream", "http://u", "--admin", "0.0.0.0:0"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("set [admin] token"), "{}", text(&output.stderr));
}
