//! The store on SQLite against itself with one commit for each verb, in a file of its own beside the one that is named.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use oncegate_core::Store;
use oncegate_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

use super::{
    Size,
    load::Recipe,
    report::{Kind, Report, Round},
    row::Row,
};
use crate::bench::cpu;

/// Runs all rounds. The file that is named is not touched: it says which disk is measured.
pub(super) async fn measure(path: &Path, size: Size) -> anyhow::Result<Report> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = TempDir::with_prefix_in("oncegate-bench-", directory)
        .with_context(|| format!("no temporary directory can be made in {}", directory.display()))?;
    let mut report = Report::new(Kind::Sqlite, size, format!("sqlite://{}", path.display()));
    let alone = Size { callers: 1, ..size };
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        let mut rows = Vec::new();
        for (name, size, is_grouped) in [
            ("one-commit", size, false),
            ("ours", size, true),
            ("one-commit-alone", alone, false),
            ("ours-alone", alone, true),
        ] {
            let path = directory.path().join(format!("{name}-{number}.db"));
            rows.push(row(name, &path, size, is_grouped).await?);
        }
        report.rounds.push(Round { rows, lone: None });
    }
    Ok(report)
}

async fn row(name: &str, path: &Path, size: Size, is_grouped: bool) -> anyhow::Result<Row> {
    let mut options = Options::default();
    if !is_grouped {
        options.batch_max = 1;
    }
    let store = Arc::new(SqliteStore::open(path, options)?);
    let before = cpu::of_process(std::process::id())?;
    let seen = Recipe::Ours(Arc::clone(&store) as Arc<dyn Store>).load(name, size.callers, size.seconds).await?;
    let client_cpu = cpu::of_process(std::process::id())?.saturating_sub(before);
    let counted = store.census().await?.completed;
    eprintln!("  {name:<16} {:>8.0} cycles/s", seen.per_second());
    let callers = size.callers;
    Ok(Row { name: name.to_owned(), callers, seen, counted, client_cpu, server_cpu: None, counters: None })
}
