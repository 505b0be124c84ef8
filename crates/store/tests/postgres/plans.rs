//! Every batched statement finds its rows by their primary key, also in a table that was never analysed.

use std::iter::repeat_n;

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::fixture::Place;

/// As many as a batch has.
const BATCH: usize = 256;

const ROWS: usize = 50_000;

/// The statements, each with literals for its parameters after the clock's offset: `uuid` stands for a list of
/// records that are there, any other word for a list of that word.
const STATEMENTS: [(&str, &str, &[&str]); 9] = [
    (
        "claim",
        include_str!("../../src/postgres/claim.sql"),
        &["uuid", "1", "s", "k", "POST", "bare", "\\\\x07", "plain", "takeover", "5", "uuid", "30 s", "24 h"],
    ),
    ("extend", include_str!("../../src/postgres/extend.sql"), &["uuid", "1", "uuid", "30 s"]),
    ("complete", include_str!("../../src/postgres/complete.sql"), &["uuid", "1", "uuid", "201", "[]", "\\\\x07"]),
    ("doubt", include_str!("../../src/postgres/doubt.sql"), &["uuid", "1", "uuid", "reset"]),
    ("release", include_str!("../../src/postgres/release.sql"), &["uuid", "1", "uuid"]),
    ("withdraw", include_str!("../../src/postgres/withdraw.sql"), &["uuid", "uuid"]),
    ("get", include_str!("../../src/postgres/get.sql"), &["uuid"]),
    (
        "resolve",
        include_str!("../../src/postgres/resolve.sql"),
        &["uuid", "1", "unknown", "201", "[]", "\\\\x07", "ada", "why", "false"],
    ),
    ("purge", include_str!("../../src/postgres/purge.sql"), &["uuid", "1", "unknown", "purge", "ada", "why", "false"]),
];

const FILL: &str = "
    INSERT INTO oncegate.records (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state,
                                  fence, attempt, lease, retention, created_at, lease_until, expires_at)
    SELECT md5(n::text)::uuid, 's', n::text, 'POST /', 'bare', '\\x07', 'plain', 'unknown', 'in_flight',
           nextval('oncegate.fences'), 1, '30 s', '24 h', now(), now(), now() + '24 h'
    FROM generate_series(1, $1::bigint) AS n";

/// A literal list of as many values as a batch has.
fn list(word: &str, uuids: &str) -> String {
    match word {
        "uuid" => format!("'{{{uuids}}}'"),
        word => format!("'{{{}}}'", repeat_n(format!("\"{word}\""), BATCH).collect::<Vec<_>>().join(",")),
    }
}

async fn plan(client: &Client, (name, sql, words): (&str, &str, &[&str]), uuids: &str) -> Vec<String> {
    let lists: Vec<_> = words.iter().map(|word| list(word, uuids)).collect();
    let script = format!(
        "{}; PREPARE {name} AS {sql}; \
         EXPLAIN EXECUTE {name} ('0 s', {}); DEALLOCATE {name}; ROLLBACK",
        include_str!("../../src/postgres/begin.sql"),
        lists.join(", ")
    );
    let messages = client.simple_query(&script).await.unwrap();
    let line = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(line).collect()
}

/// The lines of a plan that read a table of ours otherwise than by its primary key.
fn strays(plan: &[String]) -> Vec<&str> {
    let is_ours =
        |line: &str| ["records", "responses", "audit"].iter().any(|table| line.contains(&format!(" on {table}")));
    let writes = |line: &str| ["Insert on", "Update on", "Delete on"].iter().any(|verb| line.contains(verb));
    let by_key = |index: usize| {
        let is_key = plan[index].contains("Index Scan using records_pkey")
            || plan[index].contains("Index Scan using responses_pkey");
        is_key && plan.get(index + 1).is_some_and(|next| next.contains("Index Cond: (") && next.contains("record = "))
    };
    let lines = plan.iter().map(String::as_str).enumerate();
    lines.filter(|(index, line)| is_ours(line) && !writes(line) && !by_key(*index)).map(|(_, line)| line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_batched_statement_goes_by_the_primary_key() {
    let place = Place::start(&["autovacuum=off"]).await;
    let client = place.connect().await;
    client.execute(FILL, &[&i64::try_from(ROWS).unwrap()]).await.unwrap();
    let sql = format!("SELECT string_agg(md5(n::text), ',') FROM generate_series(1, {BATCH}) AS n");
    let uuids: String = client.query_one(&sql, &[]).await.unwrap().get(0);
    for statement in STATEMENTS {
        let plan = plan(&client, statement, &uuids).await;
        let reads = plan.iter().filter(|line| line.contains("records_pkey")).count();
        assert!(reads > 0, "{} has no plan:\n{}", statement.0, plan.join("\n"));
        assert_eq!(strays(&plan), Vec::<&str>::new(), "{}:\n{}", statement.0, plan.join("\n"));
    }
}
