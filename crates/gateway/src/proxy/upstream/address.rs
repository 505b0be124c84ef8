//! Where the backend is.

use std::{fmt, str::FromStr};

use http::{
    HeaderValue,
    uri::{Authority, PathAndQuery, Scheme, Uri},
};

/// The address of the backend: `http://host:port`, and possibly a path that is put before every request's.
///
/// ```text
/// http://127.0.0.1:8000    /api/orders  ─▶  /api/orders
/// http://app:8000/shop     /api/orders  ─▶  /shop/api/orders
/// ```
///
/// The client's path is not rewritten, so a `..` in it reaches the backend as it is and may lead out of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamAddress {
    authority: Authority,
    /// Without a slash at its end; empty for none.
    base: Box<str>,
}

/// Why it is no address of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("upstream {0:?} is not an address: http://host:port or http://host:port/path is allowed")]
    Unreadable(String),
    #[error("upstream {0:?} starts with https://, which is not supported yet: http://host:port is allowed")]
    Https(String),
    #[error("upstream {0:?} has the scheme {1:?}: only http:// is allowed")]
    Scheme(String, String),
    #[error("upstream {0:?} has no scheme: write http://{0}")]
    NoScheme(String),
    #[error("upstream {0:?} names a user: credentials are not allowed in the address")]
    User(String),
    #[error("upstream {0:?} has a query: only a path is allowed behind the host")]
    Query(String),
    #[error("upstream {0:?} has port 0: 1 to 65535 is allowed")]
    Port(String),
}

// === impl UpstreamAddress ===

impl UpstreamAddress {
    /// Where connections are made to.
    pub(super) fn uri(&self) -> Uri {
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone()).path_and_query("/");
        uri.build().expect("scheme, authority and path are all there")
    }

    /// Name or address of the host, as a resolver takes it: an IPv6 address without its brackets.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(80)
    }

    /// For clients that sent no `Host` themselves.
    pub(super) fn host_header(&self) -> HeaderValue {
        HeaderValue::from_str(self.authority.as_str()).expect("an authority is visible ASCII")
    }

    /// The client's path and query, behind the base.
    pub(super) fn below_base(&self, path: Option<PathAndQuery>) -> PathAndQuery {
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if self.base.is_empty() || path.as_str() == "*" {
            return path;
        }
        // Made of the parts: a target without a path has a query alone.
        let mut joined = format!("{}{}", self.base, path.path());
        if let Some(query) = path.query() {
            joined.push('?');
            joined.push_str(query);
        }
        PathAndQuery::try_from(joined).expect("two valid paths joined are a valid path")
    }
}

impl FromStr for UpstreamAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let value = || without_credentials(text);
        if !text.contains("://") {
            return Err(AddressError::NoScheme(value()));
        }
        // `Uri` cuts a fragment off without a word.
        let uri = Some(text).filter(|text| !text.contains('#')).and_then(|text| text.parse::<Uri>().ok());
        let parts = uri.ok_or_else(|| AddressError::Unreadable(value()))?.into_parts();
        match (&parts.scheme, parts.authority, parts.path_and_query) {
            (Some(scheme), ..) if *scheme == Scheme::HTTPS => Err(AddressError::Https(value())),
            (Some(scheme), ..) if *scheme != Scheme::HTTP => Err(AddressError::Scheme(value(), scheme.to_string())),
            (_, Some(authority), _) if authority.as_str().contains('@') => Err(AddressError::User(value())),
            (.., Some(path)) if path.query().is_some() => Err(AddressError::Query(value())),
            (_, Some(authority), path) if !authority.host().is_empty() => {
                match authority.port() {
                    Some(port) if port.as_u16() == 0 => return Err(AddressError::Port(value())),
                    // A colon with no number behind it, or one that is too large.
                    None if !authority.as_str().ends_with(authority.host()) => {
                        return Err(AddressError::Unreadable(value()));
                    }
                    _ => {}
                }
                let base = path.map_or_else(Box::default, |path| path.as_str().trim_end_matches('/').into());
                Ok(Self { authority, base })
            }
            _ => Err(AddressError::Unreadable(value())),
        }
    }
}

/// The address as errors may show it: they end in logs, and passwords must not.
fn without_credentials(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (&text[..scheme.len() + 3], rest));
    // The last one, wherever it stands: a password with a slash in it is still one.
    rest.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("{scheme}…@{host}"))
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<UpstreamAddress, AddressError> {
        text.parse()
    }

    fn below(address: &str, path: &'static str) -> String {
        let path = PathAndQuery::from_static(path);
        parsed(address).unwrap().below_base(Some(path)).to_string()
    }

    #[test]
    fn an_address_is_read_and_written_back() {
        for text in ["http://127.0.0.1:8000", "http://app", "http://[::1]:8000", "http://app:8000/shop"] {
            assert_eq!(parsed(text).unwrap().to_string(), text);
        }
        assert_eq!(parsed("http://app:8000/shop/").unwrap().to_string(), "http://app:8000/shop");
        let ipv6 = parsed("http://[::1]").unwrap();
        assert_eq!((ipv6.host(), ipv6.port()), ("::1", 80));
    }

    #[test]
    fn bad_addresses_are_refused_by_what_is_wrong_with_them() {
        use AddressError as E;
        let value = |text: &str| text.to_owned();
        for (text, error) in [
            ("127.0.0.1:8000", E::NoScheme(value("127.0.0.1:8000"))),
            ("https://app", E::Https(value("https://app"))),
            ("unix://app", E::Scheme(value("unix://app"), value("unix"))),
            ("http://", E::Unreadable(value("http://"))),
            ("http://a b", E::Unreadable(value("http://a b"))),
            ("http://app:", E::Unreadable(value("http://app:"))),
            ("http://app:99999", E::Unreadable(value("http://app:99999"))),
            ("http://app:0", E::Port(value("http://app:0"))),
            ("http://me:secret@app", E::User(value("http://…@app"))),
            ("https://me:secret@app", E::Https(value("https://…@app"))),
            ("http://me:se/c?r#e@t@app", E::Unreadable(value("http://…@app"))),
            ("me:secret@app", E::NoScheme(value("…@app"))),
            ("http://app/?x=1", E::Query(value("http://app/?x=1"))),
            ("http://app/#top", E::Unreadable(value("http://app/#top"))),
        ] {
            assert_eq!(parsed(text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_base_stands_before_every_path_but_the_asterisk() {
        assert_eq!(below("http://app", "/a//b/../c?x=%2F&y"), "/a//b/../c?x=%2F&y");
        assert_eq!(below("http://app/shop", "/a?x=1"), "/shop/a?x=1");
        assert_eq!(below("http://app/shop/", "/"), "/shop/");
        assert_eq!(below("http://app/shop", "?x=1"), "/shop/?x=1");
        assert_eq!(below("http://app/shop", "*"), "*");
    }
}
