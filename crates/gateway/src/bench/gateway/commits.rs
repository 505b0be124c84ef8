//! What two commits of the store cost on this disk, with nobody else there, at the pace at which they are compared: a
//! processor and a disk that were idle answer later than busy ones.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::bail;
use bytes::Bytes;
use oncegate_core::{Backend, Claim, Policy, Store as _, StoredResponse, Written};
use oncegate_store::sqlite::{Options, SqliteStore};

use super::paced;
use crate::bench::cycle;

/// Claims and completions that are timed.
const CYCLES: u32 = 200;

/// The median of a claim and its completion, one after the other.
pub(super) async fn of_sqlite(directory: &Path) -> anyhow::Result<Duration> {
    let store = SqliteStore::open(directory.join("commits.db"), Options::default())?;
    let policy = Arc::new(Policy::gateway(Backend::Plain));
    let response = StoredResponse { status: 201, headers: Vec::new(), body: Some(Bytes::new()) };
    let (mut cycles, mut ticks) = (Vec::new(), paced::ticks());
    for number in 0..CYCLES {
        ticks.tick().await;
        let request = cycle::request("bench", &format!("key-{number}"), &policy)?;
        let asked = Instant::now();
        let Claim::Acquired(lease) = store.claim(&request).await? else { bail!("a new key was taken") };
        let Written::Done = store.complete(&lease, &response).await? else { bail!("a completion was stale") };
        cycles.push(asked.elapsed());
    }
    Ok(median(cycles))
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().unwrap_or_default()
}
