//! Shows the token once, for the session of a browser.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Form,
    extract::{Query, State},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};

use super::{
    frame::{Frame, Place},
    html::Html,
};
use crate::{
    admin::{Admin, access::Access},
    records::desk,
};

type Fields = BTreeMap<String, String>;

/// The address of the page that asks for the token, on the way to another one.
pub(super) fn address(wanted: &str) -> String {
    if wanted == "/" { "/login".to_owned() } else { format!("/login?to={}", percent_encoded(wanted)) }
}

pub(super) async fn page(State(admin): State<Arc<Admin>>, headers: HeaderMap, Query(query): Query<Fields>) -> Response {
    let wanted = own_page(query.get("to"));
    if !admin.access.has_token() {
        return Redirect::to(wanted).into_response();
    }
    ask(&admin, &headers, wanted, StatusCode::OK)
}

/// What the form of that page sends: the token, never within an address.
pub(super) async fn enter(State(admin): State<Arc<Admin>>, headers: HeaderMap, Form(fields): Form<Fields>) -> Response {
    let wanted = own_page(fields.get("to"));
    let shown = fields.get("token").map(|token| token.trim()).unwrap_or_default();
    match admin.access.open_session(shown, desk::now()) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to(wanted)).into_response(),
        None => ask(&admin, &headers, wanted, StatusCode::UNAUTHORIZED),
    }
}

pub(super) async fn leave(State(admin): State<Arc<Admin>>, headers: HeaderMap, Form(fields): Form<Fields>) -> Response {
    if !admin.access.is_own_form(&headers, fields.get("seal").map(String::as_str), desk::now()) {
        return (StatusCode::FORBIDDEN, "this form is not of this page\n").into_response();
    }
    ([(header::SET_COOKIE, Access::closed_session())], Redirect::to("/login")).into_response()
}

fn ask(admin: &Admin, headers: &HeaderMap, wanted: &str, status: StatusCode) -> Response {
    let wrong = match status {
        StatusCode::UNAUTHORIZED => Html::of("<p class=\"problem\" role=\"alert\">This is not the token.</p>\n"),
        _ => Html::default(),
    };
    let main = Html::filled(include_str!("door.html"), &[("wrong", wrong), ("to", Html::text(wanted))]);
    Frame { admin, headers }.page(status, (Place::Door, "Sign in"), main)
}

/// Where to go afterwards: to a page of ours, whatever the address asks for.
fn own_page(wanted: Option<&String>) -> &str {
    let is_own = |wanted: &&str| {
        let path = wanted.split(['?', '#']).next().unwrap_or_default();
        super::is_page(path) && wanted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    wanted.map(String::as_str).filter(is_own).unwrap_or("/")
}

fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encoded = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere_by_the_door() {
        for own in ["/", "/records?scope=acme", "/records/0123abcd", "/audit"] {
            assert_eq!(own_page(Some(&own.to_owned())), own);
        }
        for foreign in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/records/\\",
            "/api/records",
            "/records/\r\nX: y",
        ] {
            assert_eq!(own_page(Some(&foreign.to_owned())), "/", "{foreign}");
        }
        assert_eq!(own_page(None), "/");
    }

    #[test]
    fn the_way_on_survives_its_address() {
        assert_eq!(address("/"), "/login");
        assert_eq!(address("/records?key=a&scope=b"), "/login?to=/records%3Fkey%3Da%26scope%3Db");
    }
}
