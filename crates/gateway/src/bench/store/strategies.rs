//! The strategies in SQL around a handler of one INSERT, against that INSERT alone.

use oncegate_store::postgres::yardstick::Strategy;

use super::{
    Size,
    place::Place,
    report::{Kind, Report, Round},
};

/// Runs all rounds.
pub(super) async fn measure(place: &Place, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new(Kind::Strategies, size, place.address().to_string());
    report.server = Some(place.about().clone());
    report.notes = place.notes();
    let database = place.database(0).await?;
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        database.server.empty().await?;
        let mut rows = Vec::new();
        for strategy in Strategy::ALL {
            rows.push(place.strategy(&database, strategy, size).await?);
        }
        report.rounds.push(Round { rows, lone: None });
    }
    Ok(report)
}
