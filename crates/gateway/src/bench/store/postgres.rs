//! The store on PostgreSQL against the plain recipe.

use super::{
    Size,
    lone::Lone,
    place::Place,
    report::{Kind, Report, Round},
};

/// The pools among which the recipe's best is looked for.
pub(super) const POOLS: [usize; 4] = [8, 16, 32, 64];

/// What many applications open when they are under pressure: a connection for each worker.
pub(super) const MANY: usize = 256;

/// Connections of ours beside the recipe's.
const SPARE: usize = 8;

/// Runs all rounds.
pub(super) async fn measure(place: &Place, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new(Kind::Postgres, size, place.address().to_string());
    report.server = Some(place.about().clone());
    report.notes = place.notes();
    let mut pools = POOLS.to_vec();
    pools.push(MANY);
    let room = place.about().connections.saturating_sub(SPARE);
    pools.retain(|pool| *pool <= room);
    if !pools.contains(&MANY) {
        let note = format!("the server has no room for {MANY} connections: raise max_connections to compare with them");
        eprintln!("warning: {note}");
        report.notes.push(note);
    }
    let database = place.database(0).await?;
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        database.server.empty().await?;
        let mut rows = Vec::new();
        for pool in &pools {
            rows.push(place.plain(&database, *pool, size).await?);
        }
        rows.push(place.ours(&database, "ours", size, false).await?);
        let lone = Lone::measure(place, &database, "alone", size.seconds).await?;
        report.rounds.push(Round { rows, lone: Some(lone) });
    }
    Ok(report)
}
