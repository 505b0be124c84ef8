//! The example as it is, on a real PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Client;

#[path = "../../../crates/store/tests/servers/postgres.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod server;

use server::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// The running example. Dropping it kills it.
struct Shop {
    child: Child,
    address: String,
}

impl Shop {
    fn start(server: &Server) -> Self {
        let mut shop = Command::new(env!("CARGO_BIN_EXE_axum-orders"));
        shop.env("DATABASE_URL", server.address()).env("LISTEN", "127.0.0.1:0").stderr(Stdio::piped());
        let mut child = shop.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listens = |line: std::io::Result<String>| line.unwrap().strip_prefix("listening on ").map(str::to_owned);
        let address = lines.by_ref().find_map(listens).expect("the shop listens");
        // Read on, so that it never waits for its log.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Orders with these header fields; the whole answer.
fn order(address: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"item": "tea"}"#;
    let head = "POST /orders HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Type: application/json\r\n";
    write!(stream, "{head}{fields}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_first(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 201 ") && !is_replay(answer)
}

fn is_replay(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 201 ") && answer.contains("\r\nidempotent-replayed: true\r\n")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

async fn orders(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM orders", &[]).await.unwrap().get(0)
}

/// Waits until the database says so.
async fn wait_until(client: &Client, condition: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !client.query_one(&format!("SELECT {condition}"), &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "it never holds that {condition}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_repeat_gets_the_answer_that_was_committed_with_the_order() {
    let server = Server::start(&[]).await;
    let shop = Shop::start(&server);
    let client = server.connect().await;
    let first = order(&shop.address, "Idempotency-Key: k\r\n");
    assert!(is_first(&first), "{first}");
    assert_eq!(body(&first), r#"{"item":"tea","order":1}"#);
    // Another process knows it from the database alone.
    let other = Shop::start(&server);
    for address in [&shop.address, &other.address] {
        let repeat = order(address, "Idempotency-Key: k\r\n");
        assert!(is_replay(&repeat) && body(&repeat) == body(&first), "{repeat}");
    }
    assert_eq!(orders(&client).await, 1);
    let owners = "SELECT count(owner) FROM oncegate.records";
    assert_eq!(
        client.query_one(owners, &[]).await.unwrap().get::<_, i64>(0),
        0,
        "the handler completed, not the layer"
    );
    assert!(order(&shop.address, "").starts_with("HTTP/1.1 400 "), "a key is required");
}

#[tokio::test]
async fn a_shop_that_stands_still_past_its_lease_orders_nothing() {
    let server = Server::start(&[]).await;
    let (shop, other) = (Shop::start(&server), Shop::start(&server));
    let client = server.connect().await;
    // Holds up the order, and with it the shop in the middle of its transaction.
    client.batch_execute("BEGIN; LOCK TABLE orders").await.unwrap();
    let address = shop.address.clone();
    let first = thread::spawn(move || order(&address, "Idempotency-Key: k\r\n"));
    wait_until(&client, "EXISTS (SELECT FROM pg_locks WHERE NOT granted)").await;
    shop.signal(Signal::STOP);
    client.batch_execute("COMMIT").await.unwrap();

    let past = "UPDATE oncegate.records SET lease_until = clock_timestamp() - interval '1 s'";
    client.batch_execute(past).await.unwrap();
    let second = order(&other.address, "Idempotency-Key: k\r\n");
    assert!(is_first(&second), "it was taken over: {second}");
    shop.signal(Signal::CONT);
    let first = first.join().unwrap();
    assert!(is_replay(&first) && body(&first) == body(&second), "it was fenced, and says what was committed: {first}");
    assert_eq!(orders(&client).await, 1);
}
