//! `/`: how it goes, and what waits for somebody.

use std::{sync::Arc, time::Instant};

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode};
use oncegate_core::{Filter, StateName, StoreError, Timestamp};

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
    let (desk, now) = (&admin.desk, desk::now());
    let unknown = Filter { state: Some(StateName::Unknown), rows: ROWS, ..Filter::default() };
    let abandoned = Filter { abandoned: true, rows: ROWS, ..Filter::default() };
    let lists = tokio::join!(desk.list(&unknown), desk.list(&abandoned), desk.suspected(ROWS));
    let values = [
        ("unknown", found(lists.0, now, table::of_unknown)),
        ("abandoned", found(lists.1, now, table::of_abandoned)),
        ("suspected", found(lists.2, now, table::of_suspicions)),
    ];
    Html::filled(include_str!("waiting.html"), &values)
}

fn found<T>(found: Result<Vec<T>, StoreError>, now: Timestamp, table: fn(&[T], Timestamp) -> Html) -> Html {
    match found {
        Ok(rows) if rows.is_empty() => Html::of("<p class=\"hint\">None.</p>\n"),
        Ok(rows) => table(&rows, now),
        Err(error) => said(&error),
    }
}

/// What the store says instead of an answer.
pub(super) fn said(error: &StoreError) -> Html {
    Html::filled("<p class=\"problem\">{{text}}</p>\n", &[("text", Html::text(error))])
}
