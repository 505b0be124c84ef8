//! What every page has around it: the head, the way to the others, and what the browser may do with it.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, StatusCode, header};

use super::html::Html;
use crate::{admin::Admin, records::desk};

// === types ===

/// What is needed to show any page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) admin: &'a Admin,
    /// Of the request that is answered.
    pub(super) headers: &'a HeaderMap,
}

/// Where a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Records,
    Audit,
    /// Asks for the token, and leads nowhere before it is there.
    Door,
}

/// Nothing but our own files, and no script or style within a page; no other page around ours; forms only to us.
///
/// `same-origin`, not `no-referrer`: that would make browsers send `Origin: null` with our own forms.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    // Keys and callers' names belong in no cache.
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
];

// === impl Frame ===

impl Frame<'_> {
    /// A whole page.
    pub(super) fn page(self, status: StatusCode, (place, title): (Place, &str), main: Html) -> Response {
        let values = [
            ("title", Html::text(title)),
            ("navigation", self.navigation(place)),
            ("main", main),
            ("version", Html::text(env!("CARGO_PKG_VERSION"))),
        ];
        part(status, Html::filled(include_str!("frame.html"), &values))
    }

    fn navigation(self, here: Place) -> Html {
        if here == Place::Door {
            return Html::default();
        }
        let link = |(place, path, words): (Place, &'static str, &'static str)| {
            let current = if place == here { Html::of(" aria-current=\"page\"") } else { Html::default() };
            let values = [("path", Html::of(path)), ("current", current), ("words", Html::of(words))];
            Html::filled("<a href=\"{{path}}\"{{current}}>{{words}}</a>\n", &values)
        };
        let places = [
            (Place::Overview, "/", "Overview"),
            (Place::Records, "/records", "Records"),
            (Place::Audit, "/audit", "Audit"),
        ];
        let links = places.into_iter().map(link).collect();
        let sign_out = match self.admin.access.has_token() {
            true => Html::filled(SIGN_OUT, &[("seal", self.seal())]),
            false => Html::default(),
        };
        Html::filled(
            "<nav aria-label=\"Pages\">\n{{links}}</nav>\n{{sign_out}}",
            &[("links", links), ("sign_out", sign_out)],
        )
    }

    /// The member of every form by which it is known to be ours.
    pub(super) fn seal(self) -> Html {
        let seal = Html::text(self.admin.access.form_seal(self.headers, desk::now()));
        Html::filled("<input type=\"hidden\" name=\"seal\" value=\"{{seal}}\">", &[("seal", seal)])
    }
}

const SIGN_OUT: &str =
    "<form class=\"leave\" method=\"post\" action=\"/logout\">{{seal}}<button>Sign out</button></form>\n";

/// A part of a page, for the script that refreshes it, or what is one as a whole.
pub(super) fn part(status: StatusCode, html: Html) -> Response {
    (status, HEADERS, html.into_string()).into_response()
}
