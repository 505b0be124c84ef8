//! What group commit is worth: claim+complete cycles per second through one store, with and without it,
//! on the same settings (WAL, `synchronous = FULL`) in one run.
//!
//! ```text
//! cargo run --release -p oncegate-store --features sqlite --example sqlite_bench -- [--json] [DIRECTORY]
//! ```
//!
//! The directory decides which disk is measured (default: the system's temporary one). Every cycle that is
//! reported is counted again as a row of the file.

use std::{
    env,
    error::Error,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Operation, Owner, Policy, RecordId, Scope,
    Store, StoredResponse, Written,
};
use oncegate_store::sqlite::{Options, SqliteStore};

/// How long each row of the table is measured.
const MEASURED: Duration = Duration::from_secs(4);

/// A usual JSON answer of a payment API.
const BODY_BYTES: usize = 400;

type AnyError = Box<dyn Error + Send + Sync>;

/// One row of the table.
struct Measured {
    name: &'static str,
    callers: usize,
    cycles: u64,
    rows: u64,
    seconds: f64,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let (flags, directories): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|argument| argument == "--json");
    let directory = directories.first().map_or_else(env::temp_dir, Into::into);
    let mut table = Vec::new();
    for callers in [1, 256] {
        table.push(measure("one commit per verb", &directory, callers, 1).await?);
        table.push(measure("group commit", &directory, callers, Options::default().batch_max).await?);
    }
    match flags.is_empty() {
        true => print_table(&table),
        false => print_json(&table),
    }
    Ok(())
}

// === measuring ===

async fn measure(name: &'static str, directory: &Path, callers: usize, batch_max: usize) -> Result<Measured, AnyError> {
    let directory = tempfile::tempdir_in(directory)?;
    let mut options = Options::default();
    options.batch_max = batch_max;
    let store = Arc::new(SqliteStore::open(directory.path().join("bench.db"), options)?);
    let started = Instant::now();
    let until = started + MEASURED;
    let tasks: Vec<_> = (0..callers).map(|caller| tokio::spawn(call(Arc::clone(&store), caller, until))).collect();
    let mut cycles = 0;
    for task in tasks {
        cycles += task.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let rows = store.census().await?.completed;
    Ok(Measured { name, callers, cycles, rows, seconds })
}

/// Claims and completes keys of its own, one after the other.
async fn call(store: Arc<SqliteStore>, caller: usize, until: Instant) -> Result<u64, AnyError> {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))];
    let response = StoredResponse { status: 201, headers, body: Some(Bytes::from(vec![b'x'; BODY_BYTES])) };
    let policy = Arc::new(Policy::gateway(Backend::Plain));
    let mut cycles = 0;
    while Instant::now() < until {
        let request = request(&format!("{caller}-{cycles}"), &policy)?;
        let Claim::Acquired(lease) = store.claim(&request).await? else { return Err("a fresh key was taken".into()) };
        match store.complete(&lease, &response).await? {
            Written::Done => cycles += 1,
            Written::Stale => return Err("a completion was stale".into()),
        }
    }
    Ok(cycles)
}

fn request(key: &str, policy: &Arc<Policy>) -> Result<ClaimRequest, AnyError> {
    Ok(ClaimRequest {
        id: RecordId::new(
            Scope::from_text("authorization#32:0123456789abcdef0123456789abcdef")?,
            IdempotencyKey::new(key)?,
        ),
        fingerprint: Fingerprint::from_bytes(&[7; Fingerprint::STRUCTURED_LENGTH])?,
        owner: Some(Owner::random()),
        operation: Operation::new("POST", "/api/payments"),
        spelling: KeySpelling::Bare,
        policy: Arc::clone(policy),
    })
}

// === printing ===

impl Measured {
    fn per_second(&self) -> f64 {
        self.cycles as f64 / self.seconds
    }
}

/// Group commit against one commit per verb, for each number of callers.
fn ratios(table: &[Measured]) -> impl Iterator<Item = f64> {
    table.chunks(2).map(|pair| pair[1].per_second() / pair[0].per_second())
}

#[allow(clippy::print_stdout, reason = "data goes to stdout")]
fn print_table(table: &[Measured]) {
    println!("{:<22} {:>8} {:>9} {:>9} {:>10}", "", "callers", "cycles", "rows", "cycles/s");
    for row in table {
        let Measured { name, callers, cycles, rows, .. } = row;
        println!("{name:<22} {callers:>8} {cycles:>9} {rows:>9} {:>10.0}", row.per_second());
    }
    for (pair, ratio) in table.chunks(2).zip(ratios(table)) {
        println!("ratio with {} callers: {ratio:.1}", pair[0].callers);
    }
}

#[allow(clippy::print_stdout, reason = "data goes to stdout")]
fn print_json(table: &[Measured]) {
    let row = |row: &Measured| {
        serde_json::json!({
            "name": row.name, "callers": row.callers, "cycles": row.cycles, "rows": row.rows,
            "cycles_per_second": row.per_second(),
        })
    };
    let rows: Vec<_> = table.iter().map(row).collect();
    println!("{}", serde_json::json!({ "rows": rows, "ratios": ratios(table).collect::<Vec<_>>() }));
}
