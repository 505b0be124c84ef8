//! Every batched statement finds its rows by their primary key, also in a table that was never analysed.

use std::{future, iter::repeat_n, sync::mpsc};

use futures_util::{StreamExt, stream};
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::fixture::Place;

/// As many as a batch has.
const BATCH: usize = 256;

const ROWS: usize = 50_000;

/// The functions and statements, each with literals for its parameters after the clock's offset: `uuid` stands for a
/// list of records that are there, any other word for a list of that word.
const FUNCTIONS: [(&str, &[&str]); 4] = [
    (
        "claim_batch",
        &["uuid", "1", "s", "k", "POST", "bare", "\\\\x07", "plain", "takeover", "5", "uuid", "30 s", "24 h"],
    ),
    ("extend_batch", &["uuid", "1", "uuid", "30 s"]),
    ("complete_batch", &["uuid", "1", "uuid", "201", "[]", "\\\\x07"]),
    ("complete_batch_timed", &["uuid", "1", "uuid", "201", "[]", "\\\\x07"]),
];

const STATEMENTS: [(&str, &str, &[&str]); 6] = [
    ("doubt", include_str!("../../src/postgres/doubt.sql"), &["uuid", "1", "uuid", "reset", "false"]),
    ("release", include_str!("../../src/postgres/release.sql"), &["uuid", "1", "uuid", "false"]),
    ("withdraw", include_str!("../../src/postgres/withdraw.sql"), &["uuid", "1", "uuid", "false"]),
    ("get", include_str!("../../src/postgres/get.sql"), &["uuid"]),
    (
        "resolve",
        include_str!("../../src/postgres/resolve.sql"),
        &["uuid", "1", "unknown", "201", "[]", "\\\\x07", "ada", "why", "false", "false"],
    ),
    (
        "purge",
        include_str!("../../src/postgres/purge.sql"),
        &["uuid", "1", "unknown", "purge", "ada", "why", "false", "false"],
    ),
];

/// Tells the plan of each statement that a function runs, as it is run.
const TELL: &str = "
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_nested_statements = on;
    SET auto_explain.log_level = notice;";

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

fn lists(words: &[&str], uuids: &str) -> String {
    words.iter().map(|word| list(word, uuids)).collect::<Vec<_>>().join(", ")
}

async fn plan(client: &Client, (name, sql, words): (&str, &str, &[&str]), uuids: &str) -> Vec<String> {
    let script = format!(
        "{}; PREPARE {name} AS {sql}; \
         EXPLAIN EXECUTE {name} ('0 s', {}); DEALLOCATE {name}; ROLLBACK",
        include_str!("../../src/postgres/begin.sql"),
        lists(words, uuids)
    );
    let messages = client.simple_query(&script).await.unwrap();
    let line = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(line).collect()
}

/// The plans of the statements that functions run, in a session that has called none before.
async fn nested_plans(place: &Place, calls: &str) -> Vec<String> {
    let (client, mut connection) = place.config().connect(NoTls).await.unwrap();
    let (sender, notices) = mpsc::channel();
    let messages = stream::poll_fn(move |context| connection.poll_message(context));
    let listening = tokio::spawn(messages.for_each(move |message| {
        if let Ok(AsyncMessage::Notice(notice)) = message {
            drop(sender.send(notice.message().to_owned()));
        }
        future::ready(())
    }));
    client.batch_execute(TELL).await.unwrap();
    client.batch_execute(calls).await.unwrap();
    drop(client);
    listening.await.unwrap();
    // A plan follows the text of its query.
    let plan = |notice: String| {
        let lines: Vec<_> = notice.lines().map(str::to_owned).collect();
        let start = lines.iter().position(|line| line.contains("(cost=")).unwrap_or(lines.len());
        lines.into_iter().skip(start)
    };
    notices.iter().flat_map(plan).collect()
}

/// The lines of a plan that read a table of ours otherwise than by its primary key.
fn strays(plan: &[String]) -> Vec<&str> {
    let is_ours =
        |line: &str| ["records", "responses", "audit"].iter().any(|table| line.contains(&format!(" on {table}")));
    let writes = |line: &str| ["Insert on", "Update on", "Delete on"].iter().any(|verb| line.contains(verb));
    let by_key = |index: usize| {
        // The latest entries, as many as are asked for.
        if plan[index].contains("Index Scan Backward using audit_pkey") {
            return true;
        }
        let is_key = ["Index Scan", "Index Only Scan"].iter().any(|scan| {
            ["records_pkey", "responses_pkey"].iter().any(|key| plan[index].contains(&format!("{scan} using {key}")))
        });
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
    let mut plans = Vec::new();
    for (name, words) in FUNCTIONS {
        let call = format!("BEGIN; SELECT * FROM oncegate.{name} ('0 s', {}); ROLLBACK", lists(words, &uuids));
        plans.push((name, nested_plans(&place, &call).await));
    }
    for statement in STATEMENTS {
        plans.push((statement.0, plan(&client, statement, &uuids).await));
    }
    for (name, plan) in plans {
        assert_goes_by_key(name, &plan);
    }
}

/// What a session plans first it keeps, and a table of one page is read fastest from its first row to its last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_functions_of_applications_go_by_the_primary_key_when_planned_for_a_table_of_one_row() {
    let place = Place::start(&["autovacuum=off"]).await;
    let client = place.connect().await;
    client.execute(FILL, &[&1_i64]).await.unwrap();
    client.batch_execute("VACUUM ANALYZE oncegate.records").await.unwrap();
    let names = "SELECT quote_literal(record) || ', ' || fence FROM oncegate.records";
    let names: String = client.query_one(names, &[]).await.unwrap().get(0);
    for call in [
        "claim('s', 'key', 'f')",
        "enter('s', 'key', 'f')",
        "enter_new('s', 'key', 'f')",
        "extend({}, '30 s')",
        "complete({}, 201, '[]', '')",
        "doubt({}, 'reset')",
        "release({})",
    ] {
        let call = call.replace("{}", &names);
        let plan = nested_plans(&place, &format!("BEGIN; SELECT oncegate.{call}; ROLLBACK")).await;
        assert_goes_by_key(&call, &plan);
    }
}

fn assert_goes_by_key(name: &str, plan: &[String]) {
    let reads = plan.iter().filter(|line| line.contains("records_pkey")).count();
    assert!(reads > 0, "{name} has no plan:\n{}", plan.join("\n"));
    assert_eq!(strays(plan), Vec::<&str>::new(), "{name}:\n{}", plan.join("\n"));
}
