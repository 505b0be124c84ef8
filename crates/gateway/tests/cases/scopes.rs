//! C31 to C37: whose key it is, and for what.

use std::net::Ipv4Addr;

use http::Method;

use crate::harness::{Gate, post, reply, wire_from};

#[tokio::test]
async fn c31_a_key_of_another_caller_means_nothing() {
    let mut gate = Gate::start("").await;
    let session = |caller: &str, body: &str| post("/sessions", body).key("telegram:p1:7").with("authorization", caller);
    gate.exchange(session("Bearer A", "{}"), reply(201, "A's data")).await.is_executed(201, "A's data");
    gate.exchange(session("Bearer B", "{}"), reply(201, "B's data")).await.is_executed(201, "B's data");
    gate.exchange(session("Bearer C", r#"{"c":1}"#), reply(201, "C's data")).await.is_executed(201, "C's data");
    gate.repeat(session("Bearer A", "{}")).await.is_replay_of(201, "A's data");
    gate.repeat(session("Bearer B", "{}")).await.is_replay_of(201, "B's data");
    gate.repeat(session("Bearer C", "{}")).await.problem(422, "mismatch");
    assert_eq!(gate.executions(), 3);
}

#[tokio::test]
async fn c32_a_principal_executes_on_its_own_rights_and_secrets_are_not_kept() {
    let config = r#"
        [defaults]
        scope = ["header:X-Tenant", "header:X-Principal"]
        store_body = false
    "#;
    let mut gate = Gate::start_with(config, &[("ONCEGATE_LOG", "trace")]).await;
    let table = |principal| {
        let table = post("/tables", "{}").key("the-key-of-a-table");
        table.with("x-tenant", "t1").with("x-principal", principal)
    };
    gate.exchange(table("A1"), reply(200, r#"{"creds":"s3cr3t"}"#)).await.is_executed(200, r#"{"creds":"s3cr3t"}"#);
    let problem = gate.repeat(table("A1")).await.problem(410, "response-not-kept");
    assert_eq!(problem["first_status"], 200);
    gate.exchange(table("A2"), reply(403, "no")).await.is_executed(403, "no");

    let log = gate.server.log();
    gate.server.kill().await;
    for file in std::fs::read_dir(gate.directory()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"s3cr3t"), "the store holds the body");
    }
    assert!(!log.contains("s3cr3t") && !log.contains("the-key-of-a-table"), "{log}");
}

#[tokio::test]
async fn c33_a_key_of_another_endpoint_is_422_unless_the_scope_has_the_route() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/orders", "{}"), reply(201, "created")).await;
    gate.repeat(post("/orders/1/cancel", "")).await.problem(422, "mismatch");
    gate.repeat(post("/orders", "{}").method(Method::PATCH)).await.problem(422, "mismatch");

    let config = r#"
        [defaults]
        scope = ["authorization", "route"]
        [[route]]
        name = "create"
        match = "POST /orders"
        [[route]]
        name = "cancel"
        match = "POST /orders/*/cancel"
    "#;
    let mut gate = Gate::start(config).await;
    gate.exchange(post("/orders", "{}"), reply(201, "created")).await.is_executed(201, "created");
    gate.exchange(post("/orders/1/cancel", ""), reply(200, "cancelled")).await.is_executed(200, "cancelled");
    gate.repeat(post("/orders/1/cancel", "")).await.is_replay_of(200, "cancelled");
    gate.repeat(post("/orders", "{}")).await.is_replay_of(201, "created");
}

#[tokio::test]
async fn c34_a_mismatch_names_the_first_use_of_the_key() {
    let mut gate = Gate::start("").await;
    gate.exchange(post("/invoices", r#"{"customer":"c"}"#), reply(201, "in_1")).await;
    let problem = gate.repeat(post("/invoices/in_1/pay", r#"{"source":"s"}"#)).await.problem(422, "mismatch");
    assert_eq!(
        (problem["first_request"].as_str(), problem["state"].as_str()),
        (Some("POST /invoices"), Some("completed"))
    );
    assert!(problem["detail"].as_str().unwrap().contains("POST /invoices"), "{problem}");
}

#[tokio::test]
async fn c35_the_scope_can_have_the_organisation_that_is_active() {
    let mut gate = Gate::start("[defaults]\nscope = [\"authorization\", \"header:X-Org\"]\n").await;
    for organisation in ["o1", "o2"] {
        let document = post("/docs", "{}").with("x-org", organisation);
        gate.exchange(document, reply(201, organisation)).await.is_executed(201, organisation);
    }
    let repeat = gate.repeat(post("/docs", "{}").with("x-org", "o1")).await;
    repeat.is_replay_of(201, "o1");
    let shown = repeat.headers.values().any(|value| value.as_bytes().windows(2).any(|window| window == b"o2"));
    assert!(!shown && gate.executions() == 2);
}

#[tokio::test]
async fn c36_anonymous_callers_share_a_scope_whatever_their_address() {
    let mut gate = Gate::start("[defaults]\nanonymous = \"share\"\n").await;
    let contact = |body: &str| {
        let head = "POST /contact HTTP/1.1\r\nHost: test\r\nConnection: close\r\nIdempotency-Key: K1\r\n";
        format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let (address, first) = (gate.server.address.clone(), contact(r#"{"m":1}"#));
    let sent = tokio::spawn(async move { wire_from(Ipv4Addr::LOCALHOST, &address, &first).await });
    gate.service.call().await.answer(reply(201, "sent"));
    sent.await.unwrap().is_executed(201, "sent");
    let address = &gate.server.address;
    wire_from(Ipv4Addr::LOCALHOST, address, &contact(r#"{"m":2}"#)).await.problem(422, "mismatch");
    wire_from(Ipv4Addr::new(127, 0, 0, 2), address, &contact(r#"{"m":1}"#)).await.is_replay_of(201, "sent");
    assert!(gate.server.metric("oncegate_anonymous_requests_total").await >= 3.0);
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c37_two_paths_of_one_route_are_two_operations() {
    let mut gate = Gate::start("[[route]]\nname = \"tickets\"\nmatch = \"PUT /tickets/*\"\n").await;
    let ticket = |number| post(number, "{}").method(Method::PUT);
    gate.exchange(ticket("/tickets/1"), reply(200, "one")).await.is_executed(200, "one");
    let problem = gate.repeat(ticket("/tickets/2")).await.problem(422, "mismatch");
    assert_eq!(problem["first_request"], "PUT /tickets/1");
    gate.repeat(ticket("/tickets/1")).await.is_replay_of(200, "one");
}
