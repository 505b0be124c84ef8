//! C82: a PostgreSQL whose replies are late. Everything reaches it; nothing comes back in time.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    harness::{Answer, Gate, post, reply},
    servers::postgres::PostgresServer,
};

/// A PostgreSQL behind a way on which replies can be held up.
struct SlowStore {
    _server: PostgresServer,
    url: String,
    is_held: watch::Sender<bool>,
}

impl SlowStore {
    async fn start() -> Self {
        let server = PostgresServer::start().unwrap();
        server.create_database("shop").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("postgres://{}:{}@127.0.0.1:{port}/shop", server.user(), server.password());
        let is_held = watch::Sender::new(false);
        let (behind, held) = (server.port(), is_held.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                tokio::spawn(pass(client, server, held.subscribe()));
            }
        });
        Self { _server: server, url, is_held }
    }

    /// A gate in a hurry.
    async fn gate(&self) -> Gate {
        Gate::start_with("", &[("ONCEGATE__STORE__URL", &self.url), ("ONCEGATE__STORE__TIMEOUT", "500ms")]).await
    }

    fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut held: watch::Receiver<bool>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let requests = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut reply = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from_server.read(&mut reply).await {
        if held.wait_for(|is_held| !is_held).await.is_err() || to_client.write_all(&reply[..length]).await.is_err() {
            break;
        }
    }
    requests.abort();
}

fn not_executed(answer: &Answer) {
    assert!([409, 503].contains(&answer.status), "{answer:?}");
    assert_eq!(answer.header("idempotent-replayed"), None, "{answer:?}");
}

#[tokio::test]
async fn c82_a_claim_whose_reply_is_late_is_withdrawn_from_postgresql() {
    let store = SlowStore::start().await;
    let mut gate = store.gate().await;
    let request = post("/orders", "{}");
    store.hold(true);
    let sent: Vec<_> = (0..20).map(|_| gate.send(request.clone())).collect();
    for answer in sent {
        not_executed(&answer.await.unwrap());
    }
    assert_eq!(gate.executions(), 0);
    store.hold(false);
    let address = gate.server.address.clone();
    let (sent, call) = gate.until_executed(&address, &request, not_executed).await;
    assert_eq!(call.header("oncegate-attempt"), Some("1"), "what was never sent is no attempt");
    call.answer(reply(201, "ordered"));
    sent.await.unwrap().is_executed(201, "ordered");
    gate.conclude(&request).await.is_replay_of(201, "ordered");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c82_a_completion_whose_reply_is_late_is_stored_once_in_postgresql() {
    let store = SlowStore::start().await;
    let mut gate = store.gate().await;
    let request = post("/orders", "{}");
    let address = gate.server.address.clone();
    let (sent, call) = gate.until_executed(&address, &request, not_executed).await;
    store.hold(true);
    call.answer(reply(201, "ordered"));
    sent.await.unwrap().is_executed(201, "ordered");
    let repeats: Vec<_> = (0..20).map(|_| gate.send(request.clone())).collect();
    for answer in repeats {
        not_executed(&answer.await.unwrap());
    }
    store.hold(false);
    gate.conclude(&request).await.is_replay_of(201, "ordered");
    assert_eq!(gate.executions(), 1);
}
