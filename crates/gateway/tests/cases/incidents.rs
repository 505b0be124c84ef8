//! C90 and C92: secrets in answers, and a timeout that was taken for a failure.

use crate::harness::{Gate, post, reply, with_headers};

#[tokio::test]
async fn c90_a_secret_that_is_shown_once_is_nowhere_when_the_route_keeps_no_bodies() {
    let config = "[[route]]\nname = \"tokens\"\nmatch = \"POST /tokens\"\nstore_body = false\n";
    let mut gate = Gate::start_with(config, &[("ONCEGATE_LOG", "trace")]).await;
    let (mint, minted) = (post("/tokens", "{}"), r#"{"token":"t_secret"}"#);
    // The secret stands in what is otherwise kept of an answer, too.
    let shown = [("location", "/tokens/t_secret"), ("etag", r#""t_secret""#), ("link", "</tokens/t_secret>; rel=self")];
    let first = gate.exchange(mint.clone(), with_headers(reply(201, minted), &shown)).await;
    first.is_executed(201, minted);
    assert_eq!(first.header("location"), Some("/tokens/t_secret"));
    let during = gate.server.log();
    assert!(!during.contains("t_secret"), "{during}");
    for _ in 0..2 {
        let problem = gate.repeat(mint.clone()).await.problem(410, "response-not-kept");
        assert_eq!(problem["first_status"], 201);
        gate.restart(config).await;
    }
    let log = gate.server.log();
    gate.server.kill().await;
    assert!(!log.contains("t_secret"), "{log}");
    let files: Vec<_> = std::fs::read_dir(gate.directory()).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.ends_with("gate.db")), "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(8).any(|window| window == b"t_secret"), "{}", file.display());
    }
    assert_eq!(gate.executions(), 1);
}

/// The service knows nothing of keys: the gateway alone protects it.
#[tokio::test]
async fn c92_a_client_that_gave_up_is_charged_once_and_learns_of_it() {
    let mut gate = Gate::start("").await;
    let charge = |amount| post("/charges", &format!(r#"{{"amount":{amount}}}"#));
    let impatient = gate.send(charge(200));
    let call = gate.service.call().await;
    impatient.abort();
    assert!(impatient.await.is_err());
    let running = gate.repeat(charge(200)).await;
    running.problem(409, "in-flight");
    assert!(running.header("retry-after").is_some());
    call.answer(reply(201, "charged 200"));
    gate.conclude(&charge(200)).await.is_replay_of(201, "charged 200");
    gate.repeat(charge(500)).await.problem(422, "mismatch");
    assert_eq!(gate.executions(), 1);
    assert_eq!(gate.server.metric("oncegate_clients_left_total").await, 1.0);
}
