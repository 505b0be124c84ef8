//! `/audit`: what operators did.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode};

use super::{
    frame::{Frame, Place},
    html::Html,
    overview, table,
};
use crate::{admin::Admin, records::desk};

/// The latest; `/api/audit` has more.
const ROWS: usize = 100;

pub(super) async fn page(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    let (status, entries) = match admin.desk.audit(ROWS).await {
        Ok(entries) if entries.is_empty() => {
            (StatusCode::OK, Html::of("<p class=\"hint\">No operator has done anything yet.</p>"))
        }
        Ok(entries) => (StatusCode::OK, table::of_audit(&entries, desk::now())),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, overview::said(&error)),
    };
    let main = Html::filled(
        "<h1>Audit</h1>\n<p class=\"hint\">What operators did, the latest first, by command, program or page. \
         An operator is a name, not a proof.</p>\n{{entries}}",
        &[("entries", entries)],
    );
    Frame { admin: &admin, headers: &headers }.page(status, (Place::Audit, "Audit"), main)
}
