//! The store beside many records, against itself beside few: what a table that has grown costs.

use super::{
    Size,
    place::{Database, Place},
    report::{Growth, Kind, Report, Round},
};

/// The records of the smaller table.
pub(super) const FEW: u64 = 100_000;

/// How many records one statement adds.
const STEP: u64 = 250_000;

/// Fills two databases on the same server and takes turns. Every row begins right after a checkpoint, so that each page
/// that it touches for the first time goes into the write-ahead log as a whole, and has another one in its middle.
pub(super) async fn measure(place: &Place, size: Size, rows: u64) -> anyhow::Result<Report> {
    let mut report = Report::new(Kind::Growth, size, place.address().to_string());
    report.server = Some(place.about().clone());
    report.notes = place.notes();
    let (small, large) = (place.database(0).await?, place.database(1).await?);
    fill(&small, FEW.min(rows)).await?;
    fill(&large, rows).await?;
    let filled = large.server.sizes().await?;
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        let mut rows = Vec::new();
        for (database, name) in [(&small, "ours-small"), (&large, "ours-large")] {
            rows.push(place.ours(database, name, size, true).await?);
        }
        report.rounds.push(Round { rows, lone: None });
    }
    report.growth = Some(Growth { rows, few: FEW.min(rows), filled, after: large.server.sizes().await? });
    Ok(report)
}

async fn fill(database: &Database, rows: u64) -> anyhow::Result<()> {
    let mut first = 1;
    while first <= rows {
        let last = rows.min(first + STEP - 1);
        database.server.fill(first, last).await?;
        first = last + 1;
        if first % 1_000_000 <= STEP {
            eprintln!("  {last} of {rows} records filled in");
        }
    }
    database.server.vacuum().await?;
    Ok(())
}
