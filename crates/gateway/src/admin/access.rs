//! Who may use the admin listener: whoever shows the token, a browser that has shown it, and pages of nobody else.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use oncegate_core::Timestamp;

use super::{
    Admin, SharedToken,
    api::Problem,
    page,
    seal::{is_same, seal},
};
use crate::records::desk;

// === types ===

/// Recognises callers, and what this listener has written itself.
#[derive(Debug)]
pub(super) struct Access {
    token: SharedToken,
    /// What forms are sealed with where there is no token: known to this process alone.
    key: [u8; 32],
}

/// Probes have no token, and these say nothing that one could use.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];

/// Of the cookie that a browser gets for the token.
const COOKIE: &str = "oncegate";

/// About a shift: whoever leaves a browser open is asked again the next day.
const SESSION: Duration = Duration::from_hours(12);

// === the way in ===

/// Stands before everything that the listener answers.
pub(super) async fn authorise(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let (path, access) = (request.uri().path(), &admin.access);
    if OPEN_PATHS.contains(&path) {
        return next.run(request).await;
    }
    // A scraper names the listener as it likes, and does nothing.
    if path != "/metrics"
        && let Some(problem) = refusal(!access.has_token(), request.headers())
    {
        return problem.into_response();
    }
    if page::is_open(path) || access.allows(request.headers(), desk::now()) {
        return next.run(request).await;
    }
    if page::is_page(path) {
        let wanted = request.uri().path_and_query().filter(|_| request.method() == Method::GET);
        return page::ask_for_token(wanted.map_or("/", |wanted| wanted.as_str()));
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "send Authorization: Bearer TOKEN\n")
        .into_response()
}

/// No page of another origin may use the browser of somebody who can reach this listener.
///
/// Without a token, a name that was made to point here ("DNS rebinding") would make any page the same origin, so names
/// other than `localhost` are refused then. With one, such a page has neither the token nor the cookie, which belongs to
/// the name under which the token was shown.
fn refusal(is_open: bool, headers: &HeaderMap) -> Option<Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_open && !is_address_or_localhost(host) {
        let detail = "call this listener by its IP address or localhost, or set [admin] token";
        return Some(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let origin = headers.get(header::ORIGIN)?;
    let is_same = origin.to_str().is_ok_and(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    (!is_same).then(|| Problem::new(StatusCode::FORBIDDEN, "pages of another origin may not use this listener"))
}

fn is_address_or_localhost(host: &str) -> bool {
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let Some(name) = uri.host() else { return false };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

// === impl Access ===

impl Access {
    pub(super) fn new(token: SharedToken) -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        key[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        Self { token, key }
    }

    /// Whether callers must show anything.
    pub(super) fn has_token(&self) -> bool {
        self.token.0.load().is_some()
    }

    fn allows(&self, headers: &HeaderMap, now: Timestamp) -> bool {
        let token = self.token.0.load();
        let Some(token) = &*token else { return true };
        if self.session(headers, now).is_some() {
            return true;
        }
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (shown.next(), shown.next()) else { return false };
        bearer(value.as_bytes()).is_some_and(|shown| token.is(shown))
    }

    // === sessions of browsers ===

    /// The cookie for a browser that shows the token; `None` if it is not the token.
    ///
    /// The cookie holds the end of the session, sealed with the token: it needs no memory, holds on every gate that
    /// has this token, and ends with the token.
    pub(super) fn open_session(&self, shown: &str, now: Timestamp) -> Option<HeaderValue> {
        let token = self.token.0.load_full()?;
        if !token.is(shown.as_bytes()) {
            return None;
        }
        let session = self.session_until(now.after(SESSION));
        Some(set_cookie(&session, SESSION))
    }

    /// The cookie that makes a browser forget its session.
    pub(super) fn closed_session() -> HeaderValue {
        set_cookie("", Duration::ZERO)
    }

    fn session_until(&self, end: Timestamp) -> String {
        let end = end.as_micros();
        format!("{end}.{}", self.seal(&format!("session {end}")))
    }

    /// The value of the cookie, if it is one of ours and has not ended.
    fn session<'h>(&self, headers: &'h HeaderMap, now: Timestamp) -> Option<&'h str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut values = lines.flat_map(|line| line.split("; ")).filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        values.find(|value| {
            let end = value.split_once('.').and_then(|(end, _)| end.parse().ok()).map(Timestamp::from_micros);
            end.is_some_and(|end| now < end && is_same(value, &self.session_until(end)))
        })
    }

    // === forms ===

    /// What a form of this listener carries, so that no other page can make one: only who was shown the page in the
    /// same session knows it.
    pub(super) fn form_seal(&self, headers: &HeaderMap, now: Timestamp) -> String {
        self.seal(&format!("form {}", self.session(headers, now).unwrap_or_default()))
    }

    /// Whether a form is one of this listener's.
    pub(super) fn is_own_form(&self, headers: &HeaderMap, shown: Option<&str>, now: Timestamp) -> bool {
        shown.is_some_and(|shown| is_same(shown, &self.form_seal(headers, now)))
    }

    fn seal(&self, text: &str) -> String {
        match &*self.token.0.load() {
            Some(token) => seal(token.as_bytes(), text),
            None => seal(&self.key, text),
        }
    }
}

/// Not for scripts, never sent along by a page of another site, and to nobody who listens below another path.
fn set_cookie(value: &str, life: Duration) -> HeaderValue {
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict", life.as_secs());
    HeaderValue::try_from(cookie).expect("digits, letters and signs of ASCII")
}

/// The token behind `Bearer`, whose case does not count (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Token;

    fn is_refused(is_open: bool, host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
        headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
        refusal(is_open, &headers).is_some()
    }

    #[test]
    fn only_pages_of_this_listener_may_use_it() {
        for host in ["127.0.0.1:8081", "[::1]:8081", "localhost:8081", "LOCALHOST"] {
            assert!(!is_refused(true, host, None), "{host}");
        }
        assert!(!is_refused(true, "127.0.0.1:8081", Some("http://127.0.0.1:8081")));
        for origin in ["http://evil.example", "http://127.0.0.1:8080", "null", "http://127.0.0.1:8081.evil.example"] {
            assert!(is_refused(true, "127.0.0.1:8081", Some(origin)), "{origin}");
            assert!(is_refused(false, "127.0.0.1:8081", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_name_that_was_made_to_point_here_is_refused_where_there_is_no_token() {
        for host in ["evil.example:8081", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert!(is_refused(true, host, None), "{host}");
            assert!(!is_refused(false, host, None), "{host}");
        }
    }

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn access(token: Option<&str>) -> Access {
        Access::new(SharedToken::new(token.map(|token| Token::new(token.to_owned()))))
    }

    /// As a browser sends back what it was given.
    fn cookie(set: &HeaderValue) -> HeaderMap {
        let value = set.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(format!("theme=dark; {value}")).unwrap())])
    }

    #[test]
    fn a_session_is_opened_by_the_token_and_ends_with_its_time_or_the_token() {
        let access = access(Some(TOKEN));
        assert!(access.open_session("0123", NOW).is_none());
        let set = access.open_session(TOKEN, NOW).unwrap();
        assert!(set.to_str().unwrap().ends_with("; HttpOnly; SameSite=Strict"), "{set:?}");
        assert!(!set.to_str().unwrap().contains(TOKEN));
        let headers = cookie(&set);
        assert!(access.allows(&headers, NOW) && !access.allows(&HeaderMap::new(), NOW));
        assert!(!access.allows(&headers, NOW.after(SESSION)), "its time is over");
        access.token.replace(Some(Token::new("f".repeat(32))));
        assert!(!access.allows(&headers, NOW), "the token is another one");
    }

    #[test]
    fn nobody_can_make_a_session_longer() {
        let access = access(Some(TOKEN));
        let set = access.open_session(TOKEN, NOW).unwrap();
        let longer = set.to_str().unwrap().replacen("18000", "19000", 1);
        let headers = cookie(&HeaderValue::try_from(longer).unwrap());
        assert!(!access.allows(&headers, NOW));
    }

    #[test]
    fn a_form_belongs_to_the_session_in_which_it_was_shown() {
        let access = access(Some(TOKEN));
        let [mine, yours] =
            [NOW, NOW.after(Duration::from_secs(1))].map(|at| cookie(&access.open_session(TOKEN, at).unwrap()));
        let seal = access.form_seal(&mine, NOW);
        assert!(access.is_own_form(&mine, Some(&seal), NOW));
        assert!(!access.is_own_form(&yours, Some(&seal), NOW));
        assert!(!access.is_own_form(&mine, None, NOW));
    }

    #[test]
    fn a_form_of_another_process_is_not_ours_where_there_is_no_token() {
        let (one, other, nobody) = (access(None), access(None), HeaderMap::new());
        let seal = one.form_seal(&nobody, NOW);
        assert!(one.is_own_form(&nobody, Some(&seal), NOW));
        assert!(!other.is_own_form(&nobody, Some(&seal), NOW));
        assert!(!one.is_own_form(&nobody, Some(""), NOW));
    }
}
