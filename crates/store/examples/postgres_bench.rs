//! What group commit is worth on PostgreSQL: claim+complete cycles per second through the store, and by the plain
//! recipe (an INSERT, later an UPDATE, each a transaction of its own, on a pool), on one server in one run.
//!
//! ```text
//! cargo run --release -p oncegate-store --features postgres --example postgres_bench -- postgres://USER@HOST/DATABASE
//! ```
//!
//! The database must have the schema `oncegate`; a table `plain_recipe` is made and dropped. Every cycle that is
//! reported is counted again as a row.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Operation, Owner, Policy, RecordId, Scope,
    Store, StoredResponse, Written,
};
use oncegate_store::postgres::{Options, PostgresStore};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Statement};

/// How long each row of the table is measured.
const MEASURED: Duration = Duration::from_secs(4);

/// As many as wait for answers in a busy service.
const CALLERS: usize = 256;

/// A usual JSON answer of a payment API.
const BODY_BYTES: usize = 400;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let address = env::args().nth(1).ok_or("write the address of a database")?;
    let run = uuid::Uuid::new_v4().simple().to_string();
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    tokio::spawn(connection);
    for (setting, sql) in [("fsync", "SHOW fsync"), ("synchronous_commit", "SHOW synchronous_commit")] {
        let value: String = client.query_one(sql, &[]).await?.get(0);
        println(&format!("{setting} = {value}"));
    }
    let mut best_plain = 0.0_f64;
    for connections in [8, 16, 32, 64, CALLERS] {
        let rate = plain(&address, &client, connections).await?;
        println(&format!("plain recipe, {connections:>3} connections: {rate:>8.0} cycles/s"));
        best_plain = best_plain.max(rate);
    }
    for lanes in [1, 2, 3] {
        let mut options = Options::default();
        options.lanes = lanes;
        let rate = grouped(&address, &client, options, (CALLERS, &format!("{run}-{lanes}"))).await?;
        println(&format!(
            "group commit, {lanes} lanes: {rate:>8.0} cycles/s, {:.1} of the plain recipe",
            rate / best_plain
        ));
    }
    let rate = grouped(&address, &client, Options::default(), (1, &format!("{run}-alone"))).await?;
    println(&format!("group commit, one caller: {rate:>8.0} cycles/s"));
    Ok(())
}

#[allow(clippy::print_stdout, reason = "data goes to stdout")]
fn println(line: &str) {
    println!("{line}");
}

/// Cycles per second through the store.
async fn grouped(
    address: &str,
    client: &Client,
    options: Options,
    (callers, scope): (usize, &str),
) -> Result<f64, AnyError> {
    let store = Arc::new(PostgresStore::open(&address.parse()?, options));
    store.get(RecordId::new(Scope::anonymous(), IdempotencyKey::new("warm")?).digest()).await?;
    let started = Instant::now();
    let call = |caller| tokio::spawn(call(Arc::clone(&store), format!("{scope}-{caller}"), started + MEASURED));
    let cycles = sum((0..callers).map(call).collect()).await?;
    let seconds = started.elapsed().as_secs_f64();
    let sql = "SELECT count(*) FROM oncegate.records WHERE scope LIKE $1 || '%' AND state = 'completed'";
    let rows: i64 = client.query_one(sql, &[&scope]).await?.get(0);
    if u64::try_from(rows)? != cycles {
        return Err(format!("{cycles} cycles, but {rows} rows").into());
    }
    Ok(cycles as f64 / seconds)
}

async fn call(store: Arc<PostgresStore>, scope: String, until: Instant) -> Result<u64, AnyError> {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))];
    let response = StoredResponse { status: 201, headers, body: Some(Bytes::from(vec![b'x'; BODY_BYTES])) };
    let policy = Arc::new(Policy::gateway(Backend::Plain));
    let mut cycles = 0;
    while Instant::now() < until {
        let request = ClaimRequest {
            id: RecordId::new(Scope::from_text(&scope)?, IdempotencyKey::new(&cycles.to_string())?),
            fingerprint: Fingerprint::from_bytes(&[7; Fingerprint::STRUCTURED_LENGTH])?,
            owner: Some(Owner::random()),
            operation: Operation::new("POST", "/api/payments"),
            spelling: KeySpelling::Bare,
            policy: Arc::clone(&policy),
        };
        let Claim::Acquired(lease) = store.claim(&request).await? else { return Err("a fresh key was taken".into()) };
        if store.complete(&lease, &response).await? != Written::Done {
            return Err("a completion was stale".into());
        }
        cycles += 1;
    }
    Ok(cycles)
}

/// A connection of the pool with both statements prepared.
struct Pooled {
    client: Client,
    insert: Statement,
    update: Statement,
}

/// Cycles per second by the plain recipe.
async fn plain(address: &str, client: &Client, connections: usize) -> Result<f64, AnyError> {
    client
        .batch_execute(
            "DROP TABLE IF EXISTS plain_recipe; CREATE TABLE plain_recipe (key text PRIMARY KEY, fingerprint bytea NOT \
             NULL, status int, body bytea, created_at timestamptz NOT NULL DEFAULT now())",
        )
        .await?;
    let mut pool = Vec::new();
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        let insert = "INSERT INTO plain_recipe (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let update = "UPDATE plain_recipe SET status = $2, body = $3 WHERE key = $1 AND status IS NULL";
        let (insert, update) = (client.prepare(insert).await?, client.prepare(update).await?);
        pool.push(Arc::new(Mutex::new(Pooled { client, insert, update })));
    }
    let started = Instant::now();
    // Tokio's mutex is fair, so this is as good as a queue; each caller has its connection.
    let call =
        |caller: usize| tokio::spawn(call_plainly(Arc::clone(&pool[caller % connections]), caller, started + MEASURED));
    let cycles = sum((0..CALLERS).map(call).collect()).await?;
    let seconds = started.elapsed().as_secs_f64();
    let sql = "SELECT count(*) FROM plain_recipe WHERE status IS NOT NULL";
    let rows: i64 = client.query_one(sql, &[]).await?.get(0);
    client.batch_execute("DROP TABLE plain_recipe").await?;
    if u64::try_from(rows)? != cycles {
        return Err(format!("{cycles} cycles, but {rows} rows").into());
    }
    Ok(cycles as f64 / seconds)
}

async fn call_plainly(pooled: Arc<Mutex<Pooled>>, caller: usize, until: Instant) -> Result<u64, AnyError> {
    let (fingerprint, body) = ([7_u8; 41], vec![b'x'; BODY_BYTES]);
    let mut cycles = 0;
    while Instant::now() < until {
        let key = format!("{caller}-{cycles}");
        // Given back in between, as while the handler runs.
        {
            let Pooled { client, insert, .. } = &*pooled.lock().await;
            client.execute(insert, &[&key, &&fingerprint[..]]).await?;
        }
        let Pooled { client, update, .. } = &*pooled.lock().await;
        client.execute(update, &[&key, &201, &body]).await?;
        cycles += 1;
    }
    Ok(cycles)
}

async fn sum(tasks: Vec<tokio::task::JoinHandle<Result<u64, AnyError>>>) -> Result<u64, AnyError> {
    let mut sum = 0;
    for task in tasks {
        sum += task.await??;
    }
    Ok(sum)
}
