//! What the proxy itself answers to requests that it does not forward.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use oncegate_tower::{Outcome, ResponseBody};

/// Why a request is not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// We are no forward proxy.
    Connect,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// Proxies differ in which of them counts.
    HostRepeated,
    /// `Connection` names a field that others rely on.
    ProtectedNamed,
    /// A coding of the transfer that we cannot undo.
    TransferCoding,
    /// `OPTIONS` with `Max-Forwards: 0`: meant for us.
    LastHop,
    /// `TRACE` with `Max-Forwards: 0`: meant for us, but an echo of credentials helps nobody.
    LastHopOfTrace,
    /// The client stopped in the middle of its body.
    BodyIdle,
    /// The client broke off in the middle of its body, or framed it wrongly.
    BodyCut,
}

// === impl Refusal ===

impl Refusal {
    /// The answer, behind which the connection ends: a sender that broke the rules once may mean by the next bytes
    /// something else than we do.
    pub(super) fn into_response<B>(self) -> Response<ResponseBody<B>> {
        let (status, detail) = self.row();
        let document = if detail.is_empty() { String::new() } else { document(status, detail) };
        let mut response = Response::new(ResponseBody::whole(Bytes::from(document)));
        *response.status_mut() = status;
        response.extensions_mut().insert(Outcome::Rejected);
        let headers = response.headers_mut();
        if self == Self::LastHop {
            return response;
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }

    fn row(self) -> (StatusCode, &'static str) {
        match self {
            Self::Connect => {
                (StatusCode::METHOD_NOT_ALLOWED, "this is a gateway to one service; it opens no tunnels by CONNECT")
            }
            Self::HostMissing => (StatusCode::BAD_REQUEST, "an HTTP/1.1 request needs a Host header"),
            Self::HostRepeated => (StatusCode::BAD_REQUEST, "the Host header was sent more than once"),
            Self::ProtectedNamed => (
                StatusCode::BAD_REQUEST,
                "the Connection header names a field that must reach the service, such as the idempotency key, a \
                 credential, Host or X-Forwarded-For",
            ),
            Self::TransferCoding => {
                (StatusCode::NOT_IMPLEMENTED, "the only transfer coding that is understood is chunked, applied once")
            }
            Self::LastHop => (StatusCode::NO_CONTENT, ""),
            Self::LastHopOfTrace => (StatusCode::METHOD_NOT_ALLOWED, "this gateway does not answer TRACE itself"),
            Self::BodyIdle => (StatusCode::REQUEST_TIMEOUT, "the rest of the request body did not come in time"),
            Self::BodyCut => (StatusCode::BAD_REQUEST, "the request body ended before its end"),
        }
    }
}

/// A problem document whose type says no more than the status (RFC 9457 4.2.1).
fn document(status: StatusCode, detail: &str) -> String {
    let title = status.canonical_reason().unwrap_or_default();
    serde_json::json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail })
        .to_string()
}
