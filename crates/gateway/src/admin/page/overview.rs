//! `/`: how it goes, and what waits for somebody.

use std::{sync::Arc, time::Instant};

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode};
use oncegate_core::{Filter, StateName, StoreError};

use super::{
    charts,
    frame::{Frame, Place, part},
    html::Html,
    table,
};
use crate::{admin::Admin, records::desk};

/// Of each table; more are found by a search.
const ROWS: usize = 20;

pub(super) async fn page(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    let (charts, waiting) = tokio::join!(how_it_goes(&admin), waiting_records(&admin));
    let main = Html::filled(include_str!("overview.html"), &[("charts", charts), ("waiting", waiting)]);
    Frame { admin: &admin, headers: &headers }.page(StatusCode::OK, (Place::Overview, "Overview"), main)
}

/// The charts alone, for the script that refreshes them.
pub(super) async fn charts(State(admin): State<Arc<Admin>>) -> Response {
    part(StatusCode::OK, how_it_goes(&admin).await)
}

/// The tables alone.
pub(super) async fn waiting(State(admin): State<Arc<Admin>>) -> Response {
    part(StatusCode::OK, waiting_records(&admin).await)
}

async fn how_it_goes(admin: &Admin) -> Html {
    [health(admin), charts::all(admin).await].into_iter().collect()
}

/// What is wrong with this process; nothing if nothing is.
fn health(admin: &Admin) -> Html {
    let problem = |text: String| Html::filled("<p class=\"problem\">{{text}}</p>\n", &[("text", Html::text(text))]);
    let unready =
        admin.health.ready(Instant::now()).err().map(|unready| problem(format!("Not ready: {}.", unready.as_str())));
    let refused = admin.last_reload.get().filter(|last| !last.faults.is_empty());
    let refused = refused.map(|last| {
        problem(format!(
            "The last reload of the configuration was refused, and what was in force before is: {}",
            last.faults.join("; ")
        ))
    });
    unready.into_iter().chain(refused).collect()
}

async fn waiting_records(admin: &Admin) -> Html {
    let unknown = Filter { state: Some(StateName::Unknown), rows: ROWS, ..Filter::default() };
    let abandoned = Filter { abandoned: true, rows: ROWS, ..Filter::default() };
    let (unknown, abandoned) = tokio::join!(admin.desk.list(&unknown), admin.desk.list(&abandoned));
    let now = desk::now();
    let found = |found: Result<Vec<_>, StoreError>, of: fn(&[_], _) -> Html, none: &'static str| match found {
        Ok(records) if records.is_empty() => Html::of(none),
        Ok(records) => of(&records, now),
        Err(error) => said(&error),
    };
    let values = [
        ("unknown", found(unknown, table::of_unknown, "<p class=\"hint\">None.</p>\n")),
        ("abandoned", found(abandoned, table::of_abandoned, "<p class=\"hint\">None.</p>\n")),
    ];
    Html::filled(include_str!("waiting.html"), &values)
}

/// What the store says instead of an answer.
pub(super) fn said(error: &StoreError) -> Html {
    Html::filled("<p class=\"problem\">{{text}}</p>\n", &[("text", Html::text(error))])
}
