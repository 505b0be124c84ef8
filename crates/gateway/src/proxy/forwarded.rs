//! What the upstream is told about where a request comes from.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use super::fields::Fields;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The client of one connection.
#[derive(Debug)]
pub(super) struct Forwarded {
    address: HeaderValue,
}

// === impl Forwarded ===

impl Forwarded {
    /// An IPv4 address that comes by an IPv6 socket is written as what it is.
    pub(super) fn new(client: IpAddr) -> Self {
        let address = client.to_canonical().to_string();
        Self { address: HeaderValue::try_from(address).expect("an address is visible ASCII") }
    }

    /// Adds the client's address and our `Via`, and the rest where nobody has set it yet.
    pub(super) fn apply(&self, headers: &mut HeaderMap, fields: Fields, version: Version) {
        let address = if fields.x_forwarded_for { self.appended_to(headers) } else { self.address.clone() };
        headers.insert(X_FORWARDED_FOR, address);
        if !fields.x_forwarded_proto {
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
        }
        if !fields.x_forwarded_host
            && let Some(host) = headers.get(header::HOST).cloned()
        {
            headers.insert(X_FORWARDED_HOST, host);
        }
        headers.append(header::VIA, via(version));
    }

    /// All addresses in one line, ours last: many a service reads one line only.
    fn appended_to(&self, headers: &HeaderMap) -> HeaderValue {
        let lines = headers.get_all(X_FORWARDED_FOR).iter().chain([&self.address]);
        let lines: Vec<&[u8]> = lines.map(HeaderValue::as_bytes).collect();
        HeaderValue::from_bytes(&lines.join(&b", "[..])).expect("valid values stay valid when joined by a comma")
    }
}

/// Names the protocol in which we got the request (RFC 9110 7.6.3).
fn via(version: Version) -> HeaderValue {
    match version {
        Version::HTTP_10 => HeaderValue::from_static("1.0 oncegate"),
        Version::HTTP_2 => HeaderValue::from_static("2 oncegate"),
        _ => HeaderValue::from_static("1.1 oncegate"),
    }
}
