//! What group commit is worth: claim+complete cycles per second through one store, with and without it,
//! on the same settings (WAL, `synchronous = FULL`) in one run.
//!
//! ```text
//! cargo run --release -p oncegate-store --features sqlite --example sqlite_bench -- [--json] [DIRECTORY]
//! ```
//!
//! The directory decides which disk is measured (default: the system's temporary one). Every cycle that is
//! reported is counted again as a row of the file. CPU time is the whole process's (callers, runtime, store),
//! read from `/proc`; elsewhere than on Linux it is 0.

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
    cpu: Duration,
    /// How long each claim took, shortest first.
    claims: Vec<Duration>,
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
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let until = started + MEASURED;
    let tasks: Vec<_> = (0..callers).map(|caller| tokio::spawn(call(Arc::clone(&store), caller, until))).collect();
    let mut claims = Vec::new();
    for task in tasks {
        claims.extend(task.await??);
    }
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_time().saturating_sub(cpu_before));
    claims.sort_unstable();
    let (cycles, rows) = (claims.len() as u64, store.census().await?.completed);
    Ok(Measured { name, callers, cycles, rows, seconds, cpu, claims })
}

/// Claims and completes keys of its own, one after the other; returns how long each claim took.
async fn call(store: Arc<SqliteStore>, caller: usize, until: Instant) -> Result<Vec<Duration>, AnyError> {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))];
    let response = StoredResponse { status: 201, headers, body: Some(Bytes::from(vec![b'x'; BODY_BYTES])) };
    let policy = Arc::new(Policy::gateway(Backend::Plain));
    let mut claims = Vec::new();
    while Instant::now() < until {
        let request = request(&format!("{caller}-{}", claims.len()), &policy)?;
        let asked = Instant::now();
        let Claim::Acquired(lease) = store.claim(&request).await? else { return Err("a fresh key was taken".into()) };
        claims.push(asked.elapsed());
        match store.complete(&lease, &response).await? {
            Written::Done => {}
            Written::Stale => return Err("a completion was stale".into()),
        }
    }
    Ok(claims)
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

/// User and system time of this process so far: fields 14 and 15 of its `stat`, in hundredths of a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 = after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

// === printing ===

impl Measured {
    fn per_second(&self) -> f64 {
        self.cycles as f64 / self.seconds
    }

    fn cpu_micros_per_cycle(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.cycles.max(1) as f64
    }

    /// How long a claim took, in milliseconds, at this share of all claims.
    fn claim_millis(&self, share: f64) -> f64 {
        let last = self.claims.len().saturating_sub(1);
        let claim = self.claims.get((last as f64 * share) as usize);
        claim.map_or(0.0, |claim| claim.as_secs_f64() * 1e3)
    }
}

/// Group commit against one commit per verb, for each number of callers.
fn ratios(table: &[Measured]) -> impl Iterator<Item = f64> {
    table.chunks(2).map(|pair| pair[1].per_second() / pair[0].per_second())
}

#[allow(clippy::print_stdout, reason = "data goes to stdout")]
fn print_table(table: &[Measured]) {
    let heads = ["callers", "cycles", "rows", "cycles/s", "CPU µs/cycle", "claim p50 ms", "p99 ms", "max ms"];
    let [callers, cycles, rows, rate, cpu, p50, p99, max] = heads;
    println!("{:<20} {callers:>7} {cycles:>7} {rows:>7} {rate:>9} {cpu:>13} {p50:>13} {p99:>8} {max:>8}", "");
    for row in table {
        let Measured { name, callers, cycles, rows, .. } = row;
        let (rate, cpu) = (row.per_second(), row.cpu_micros_per_cycle());
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| row.claim_millis(share));
        print!("{name:<20} {callers:>7} {cycles:>7} {rows:>7} {rate:>9.0} {cpu:>13.1}");
        println!(" {p50:>13.2} {p99:>8.2} {max:>8.2}");
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
            "cycles_per_second": row.per_second(), "cpu_micros_per_cycle": row.cpu_micros_per_cycle(),
            "claim_p50_ms": row.claim_millis(0.5), "claim_p99_ms": row.claim_millis(0.99), "claim_max_ms": row.claim_millis(1.0),
        })
    };
    let rows: Vec<_> = table.iter().map(row).collect();
    println!("{}", serde_json::json!({ "rows": rows, "ratios": ratios(table).collect::<Vec<_>>() }));
}
