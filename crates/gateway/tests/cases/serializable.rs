//! C78: a PostgreSQL whose default isolation is stricter than ours.

use crate::{
    harness::{Gate, post, reply},
    servers::postgres::PostgresServer,
};

#[tokio::test]
async fn c78_a_serialisation_failure_is_never_shown_as_a_conflict() {
    let server = PostgresServer::start().unwrap();
    server.create_database("shop").unwrap();
    server.execute("shop", "ALTER DATABASE shop SET default_transaction_isolation = serializable").unwrap();
    assert_eq!(server.execute("shop", "SHOW default_transaction_isolation").unwrap(), "serializable");
    let store = format!("postgres://{}:{}@127.0.0.1:{}/shop", server.user(), server.password(), server.port());
    let mut gate = Gate::start_with("", &[("ONCEGATE__STORE__URL", &store)]).await;

    let carts: Vec<_> = (0..50).map(|cart| gate.send(post("/checkout", "{}").key(&format!("cart-{cart}")))).collect();
    for _ in &carts {
        gate.service.call().await.answer(reply(201, "ordered"));
    }
    for cart in carts {
        cart.await.unwrap().is_executed(201, "ordered");
    }

    let same: Vec<_> = (0..50).map(|_| gate.send(post("/checkout", "{}"))).collect();
    gate.service.call().await.answer(reply(201, "ordered once"));
    let mut executed = 0;
    for answer in same {
        let answer = answer.await.unwrap();
        match (answer.status, answer.header("oncegate-problem"), answer.header("idempotent-replayed")) {
            (201, None, replayed) => executed += usize::from(replayed.is_none()),
            (409, Some("in-flight"), None) => {}
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!((executed, gate.executions()), (1, 51));
    gate.repeat(post("/checkout", "{}")).await.is_replay_of(201, "ordered once");
}
