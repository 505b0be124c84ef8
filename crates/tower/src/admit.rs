//! Key and scope: is this request guarded, and under which record id?

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use oncegate_core::{IdempotencyKey, KeySpelling, Scope, ScopeBuilder};

use crate::{
    Problem, Route,
    route::{Anonymous, KeySource, ScopePart},
};

mod member;

// === types ===

/// What the head of a request says about guarding it.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It goes on as it is.
    Unguarded,
    /// It is refused.
    Refused(Problem),
    /// It is guarded, and its key is known.
    Keyed(IdempotencyKey, KeySpelling),
    /// It is guarded if its body has a key.
    KeyInBody,
}

/// Who calls.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    pub(crate) is_anonymous: bool,
}

// === the decisions ===

/// Looks for the key.
pub(crate) fn admit(route: &Route, parts: &Parts) -> Admission {
    if !route.guards(&parts.method) {
        return Admission::Unguarded;
    }
    let name = match &route.key {
        KeySource::Header(name) => name,
        KeySource::Body(_) => return Admission::KeyInBody,
    };
    let mut values = parts.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => without_key(route),
        (Some(_), Some(_)) => Admission::Refused(Problem::key_repeated(name.as_str())),
        (Some(value), None) => match IdempotencyKey::parse(value.as_bytes()) {
            Ok((key, spelling)) => Admission::Keyed(key, spelling),
            Err(error) => Admission::Refused(Problem::key_invalid(name.as_str(), error)),
        },
    }
}

/// Looks for the key in a body that was read whole, gzip removed; one in another coding has none. May take a while: it
/// reads all of it.
pub(crate) fn admit_body(route: &Route, is_gzip: bool, body: &mut dyn io::Read) -> Admission {
    let KeySource::Body(pointer) = &route.key else { return Admission::Unguarded };
    let text = if is_gzip {
        member::text_at(MultiGzDecoder::new(body).take(route.max_request_body), pointer)
    } else {
        member::text_at(body, pointer)
    };
    let Some(text) = text else { return without_key(route) };
    match IdempotencyKey::new(&text) {
        Ok(key) => Admission::Keyed(key, KeySpelling::Bare),
        Err(error) => Admission::Refused(Problem::key_invalid(&route.key.to_string(), error)),
    }
}

/// Finds out who calls. Never by address: two phones behind one router are two callers, and one
/// phone changes its address between retries.
pub(crate) fn identify(route: &Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut builder = ScopeBuilder::new(route.scope_secret.as_deref());
    let mut is_anonymous = true;
    for part in &route.scope {
        let (name, values) = match part {
            ScopePart::Route => {
                builder = builder.with_value("route", route.name.as_bytes());
                continue;
            }
            ScopePart::Credential => ("authorization", header_values(headers, &header::AUTHORIZATION)),
            ScopePart::Header(name) => (name.as_str(), header_values(headers, name)),
            ScopePart::Cookie(name) => (&**name, cookie_values(headers, name)),
        };
        is_anonymous &= values.is_empty();
        for value in values {
            builder = match part {
                ScopePart::Header(_) => builder.with_value(name, value),
                ScopePart::Credential | ScopePart::Cookie(_) | ScopePart::Route => builder.with_credential(name, value),
            };
        }
    }
    if is_anonymous && route.anonymous == Anonymous::Reject {
        return Err(Problem::scope_missing(&expected(route)));
    }
    if matches!(route.key, KeySource::Body(_)) && !route.scope.contains(&ScopePart::Route) {
        builder = builder.with_value("route", route.name.as_bytes());
    }
    let scope = builder.build().map_err(|_| Problem::scope_too_long())?;
    Ok(Caller { scope, is_anonymous })
}

/// Whether the body is compressed with gzip.
pub(crate) fn is_gzip(headers: &HeaderMap) -> bool {
    let coding = headers.get(header::CONTENT_ENCODING).map_or(&b""[..], HeaderValue::as_bytes).trim_ascii();
    coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
}

fn without_key(route: &Route) -> Admission {
    match route.required {
        true => Admission::Refused(Problem::key_missing(&route.key.to_string())),
        false => Admission::Unguarded,
    }
}

fn header_values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

/// Values of a cookie (RFC 6265 section 4.2.1), of each `Cookie` line.
fn cookie_values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a [u8]> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    pairs
        .filter_map(|pair| {
            let pair = pair.trim_ascii();
            let at = pair.iter().position(|&byte| byte == b'=')?;
            (&pair[..at] == name.as_bytes()).then(|| &pair[at + 1..])
        })
        .collect()
}

fn expected(route: &Route) -> String {
    let names = route.scope.iter().filter_map(|part| match part {
        ScopePart::Credential => Some("Authorization".to_owned()),
        ScopePart::Header(name) => Some(name.to_string()),
        ScopePart::Cookie(name) => Some(format!("the cookie {name}")),
        ScopePart::Route => None,
    });
    names.collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};
    use oncegate_core::Backend;

    use super::*;

    fn parts(method: &str, headers: &[(&'static str, &[u8])]) -> Parts {
        let mut request = Request::builder().method(method).uri("/payments");
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    fn route() -> Route {
        Route::gateway("payments", Backend::Plain)
    }

    #[test]
    fn the_header_is_ignored_on_safe_methods() {
        let mut route = route();
        route.methods.push(http::Method::GET);
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(matches!(admit(&route, &parts(method, &[("idempotency-key", b"k")])), Admission::Unguarded));
        }
        assert!(matches!(admit(&route, &parts("PUT", &[("idempotency-key", b"k")])), Admission::Unguarded));
        assert!(matches!(admit(&route, &parts("PATCH", &[("idempotency-key", b"k")])), Admission::Keyed(..)));
    }

    #[test]
    fn a_missing_key_passes_unless_the_route_requires_one() {
        let mut route = route();
        assert!(matches!(admit(&route, &parts("POST", &[])), Admission::Unguarded));
        route.required = true;
        assert!(matches!(admit(&route, &parts("POST", &[])), Admission::Refused(_)));
    }

    #[test]
    fn a_repeated_or_broken_key_is_refused() {
        let twice: [(&str, &[u8]); 2] = [("idempotency-key", b"k"), ("idempotency-key", b"k")];
        for headers in [&twice[..], &[("idempotency-key", b"k,k")], &[("idempotency-key", b"")]] {
            assert!(matches!(admit(&route(), &parts("POST", headers)), Admission::Refused(_)));
        }
    }

    #[test]
    fn a_webhook_carries_its_key_in_the_body() {
        let mut route = route();
        let pointer = oncegate_core::fingerprint::JsonPointer::parse("/id").unwrap();
        route.key = KeySource::Body(pointer);
        assert!(matches!(admit(&route, &parts("POST", &[])), Admission::KeyInBody));
        let key_in = |coding: &[(&'static str, &[u8])], mut body: &[u8]| match admit_body(
            &route,
            is_gzip(&parts("POST", coding).headers),
            &mut body,
        ) {
            Admission::Keyed(key, _) => Some(key.as_str().to_owned()),
            Admission::Unguarded | Admission::Refused(_) | Admission::KeyInBody => None,
        };
        let key_of = |body: &str| key_in(&[], body.as_bytes());
        assert_eq!(key_of(r#"{"id":"evt_1"}"#).as_deref(), Some("evt_1"));
        assert_eq!(key_of(r#"{"id":7}"#).as_deref(), Some("7"));
        assert_eq!(key_of(r#"{"id":null}"#), None);
        assert_eq!(key_of("not json"), None);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut gzip, br#"{"id":"evt_1"}"#).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(key_in(&[("content-encoding", b"GZIP")], &gzip).as_deref(), Some("evt_1"));
        assert_eq!(key_in(&[("content-encoding", b"gzip")], br#"{"id":"evt_1"}"#), None);
        assert_eq!(key_in(&[("content-encoding", b"br")], &gzip), None);
        let scope = identify(&route, &HeaderMap::new()).unwrap().scope;
        assert_eq!(scope.as_str(), "route=8:payments");
    }

    #[test]
    fn callers_are_told_apart_by_what_the_route_names() {
        let mut route = route();
        let scope = |route: &Route, headers: &[(&'static str, &[u8])]| {
            identify(route, &parts("POST", headers).headers).unwrap().scope
        };
        let (a, b) =
            (scope(&route, &[("authorization", b"Bearer A")]), scope(&route, &[("authorization", b"Bearer B")]));
        assert_ne!(a, b);
        route.scope = vec![ScopePart::Header(HeaderName::from_static("x-org"))];
        let (a, b) = (
            scope(&route, &[("authorization", b"Bearer A"), ("x-org", b"o1")]),
            scope(&route, &[("authorization", b"Bearer B"), ("x-org", b"o1")]),
        );
        assert_eq!(a, b, "named headers replace the credential");
        route.scope = vec![ScopePart::Cookie("sid".into())];
        let (a, b) = (
            scope(&route, &[("cookie", b"x=1; sid=abc"), ("cookie", b"y=2")]),
            scope(&route, &[("cookie", b"sid=abc; x=2")]),
        );
        assert_eq!(a, b);
        assert!(!a.as_str().contains("abc"));
    }

    #[test]
    fn anonymous_callers_share_a_scope_or_are_refused() {
        let mut route = route();
        let caller = identify(&route, &HeaderMap::new()).unwrap();
        assert!(caller.is_anonymous && caller.scope.is_anonymous());
        route.anonymous = Anonymous::Reject;
        assert!(identify(&route, &HeaderMap::new()).is_err());
    }
}
