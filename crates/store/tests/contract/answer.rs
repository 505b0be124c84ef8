//! Asking, and what comes back.

use tokio_postgres::{Client, Error};

use crate::server::Server;

/// A row of `oncegate.claim` or `oncegate.enter`; times and JSON as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) outcome: String,
    pub(crate) record: String,
    pub(crate) fence: Option<i64>,
    pub(crate) attempt: Option<i32>,
    pub(crate) status: Option<i32>,
    pub(crate) headers: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
}

/// What a test's scope, key and fingerprint are unless it says otherwise.
pub(crate) const KEY: &str = "'shop', 'k', 'f'";

/// Claims with these arguments.
pub(crate) async fn claim(client: &Client, arguments: &str) -> Answer {
    try_claim(client, arguments).await.unwrap()
}

pub(crate) async fn try_claim(client: &Client, arguments: &str) -> Result<Answer, Error> {
    ask(client, "claim", arguments).await
}

/// Calls `claim` or `enter`.
pub(crate) async fn ask(client: &Client, function: &str, arguments: &str) -> Result<Answer, Error> {
    let columns = "outcome, record::text, fence, attempt, status, headers::text, body";
    let rows = client.query(&format!("SELECT {columns} FROM oncegate.{function}({arguments})"), &[]).await?;
    let [row] = &rows[..] else { panic!("{} rows", rows.len()) };
    Ok(Answer {
        outcome: row.get(0),
        record: row.get(1),
        fence: row.get(2),
        attempt: row.get(3),
        status: row.get(4),
        headers: row.get(5),
        body: row.get(6),
    })
}

/// Completes with 201 and a body.
pub(crate) async fn complete(client: &Client, lease: &Answer) -> Result<(), Error> {
    let response = r#"201, '[["content-type", "text/plain"]]', 'paid'"#;
    run(client, &format!("SELECT oncegate.complete({}, {response})", lease.names())).await
}

/// Runs statements of which the result does not matter.
pub(crate) async fn run(client: &Client, statements: &str) -> Result<(), Error> {
    client.batch_execute(statements).await
}

/// A single value, as text.
pub(crate) async fn text(client: &Client, query: &str) -> String {
    let row = client.query_one(&format!("SELECT ({query})::text"), &[]).await.unwrap();
    row.get::<_, Option<String>>(0).unwrap_or_else(|| "NULL".to_owned())
}

/// The SQLSTATE of a failure.
pub(crate) fn code<T: std::fmt::Debug>(failed: Result<T, Error>) -> String {
    failed.unwrap_err().code().expect("the server said no").code().to_owned()
}

/// Connections that are all there before any of them is used.
pub(crate) async fn connections(server: &Server, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        clients.push(server.connect().await);
    }
    clients
}

/// Lets every lease end. Tests move the rows' times, not the clock.
pub(crate) async fn end_leases(client: &Client) {
    run(
        client,
        "UPDATE oncegate.records SET lease_until = clock_timestamp() - interval '1 s' WHERE state = 'in_flight'",
    )
    .await
    .unwrap();
}

/// Lets every record expire.
pub(crate) async fn expire(client: &Client) {
    let back = "UPDATE oncegate.records
                SET expires_at = clock_timestamp() - interval '1 s', lease_until = lease_until - interval '2 h',
                    completed_at = completed_at - interval '2 h', doubted_at = doubted_at - interval '2 h'";
    run(client, back).await.unwrap();
}

// === impl Answer ===

impl Answer {
    /// Record and fence, as arguments.
    pub(crate) fn names(&self) -> String {
        format!("'{}', {}", self.record, self.fence.expect("it was acquired"))
    }
}
