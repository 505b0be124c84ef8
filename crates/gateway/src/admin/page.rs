//! `/`: the page for operators, made here and shown as it is: it needs nothing from elsewhere.
//!
//! Reading is GET, changing is a form that only this listener can have made. Without scripts everything works but the
//! charts stand still.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use http::header;

use super::Admin;

mod act;
mod audit;
mod chart;
mod charts;
mod door;
mod facts;
mod forms;
mod frame;
mod html;
mod overview;
mod record;
mod search;
mod table;

/// A response of the greatest length, each of its bytes written as `%XX`, and what stands around it.
const FORM_BYTES_MAX: usize = 3 * crate::records::response::BODY_BYTES_MAX + 64 * 1024;

pub(super) fn router() -> Router<Arc<Admin>> {
    Router::new()
        .route("/", get(overview::page))
        .route("/charts", get(overview::charts))
        .route("/waiting", get(overview::waiting))
        .route("/records", get(search::page))
        .route("/records/{record}", get(record::page))
        .route("/records/{record}/{verb}", post(act::page))
        .route("/audit", get(audit::page))
        .route("/login", get(door::page).post(door::enter))
        .route("/logout", post(door::leave))
        .route("/page.css", get(|| file("text/css; charset=utf-8", include_str!("page/page.css"))))
        .route("/page.js", get(|| file("text/javascript; charset=utf-8", include_str!("page/page.js"))))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

/// Whether this is for everybody, since it says nothing of what is guarded: the page that asks for the token.
pub(super) fn is_open(path: &str) -> bool {
    matches!(path, "/login" | "/page.css" | "/page.js")
}

/// Whether people look at it with a browser, who are asked for the token and not refused.
pub(super) fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/records" | "/audit") || path.starts_with("/records/")
}

/// To the page that asks for the token, and from there to what was wanted.
pub(super) fn ask_for_token(wanted: &str) -> Response {
    Redirect::to(&door::address(wanted)).into_response()
}

/// A part of the program: asked for again each time, so that nobody sees the one of an earlier version.
async fn file(media_type: &'static str, content: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content).into_response()
}
