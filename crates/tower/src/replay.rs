//! What is kept of a response, and how it is answered again.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response};
use oncegate_core::{Claim, Completed, ErrorKind, Timestamp};

use crate::{Outcome, Problem, ResponseBody, Route, local::Told};

mod coding;

// === headers ===

/// `true` on replays.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// On replays: when the original was completed, as an HTTP date.
pub const COMPLETED: HeaderName = HeaderName::from_static("idempotency-completed");
/// On first answers and replays: after this HTTP date the key is new.
pub const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// `true` on answers that were not guarded because the store was down.
pub const FAILED_OPEN: HeaderName = HeaderName::from_static("oncegate-failed-open");

/// What a repeat needs of a response: what its body is, and where the result is.
const KEPT: [HeaderName; 11] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_DISPOSITION,
    header::LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    header::CACHE_CONTROL,
    header::VARY,
];

/// Belongs to the exchange or the connection of the first request, or would hand a session to
/// whoever repeats; routes cannot declare these.
const NEVER_KEPT: [HeaderName; 20] = [
    header::SET_COOKIE,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::AUTHORIZATION,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::DATE,
    header::AGE,
    header::VIA,
    header::RETRY_AFTER,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// Whether a route may declare that replays carry this header.
#[must_use]
pub fn may_be_kept(name: &HeaderName) -> bool {
    let families = ["access-control-", "ratelimit", "x-ratelimit"];
    let belongs_to_the_exchange = families.iter().any(|family| name.as_str().starts_with(family));
    !belongs_to_the_exchange && !NEVER_KEPT.contains(name)
}

// === keeping ===

/// The headers of a response that its replays carry, in their order.
pub(crate) fn kept_headers(route: &Route, headers: &HeaderMap) -> Vec<(String, Bytes)> {
    let is_kept = |name: &HeaderName| KEPT.contains(name) || route.replay_headers.contains(name) && may_be_kept(name);
    let kept = headers.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, value)| (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()))).collect()
}

/// Marks a first answer.
pub(crate) fn mark_executed(parts: &mut response::Parts, expires_at: Timestamp) {
    parts.headers.insert(EXPIRES, http_date(expires_at));
    parts.extensions.insert(Outcome::Executed);
}

// === answering ===

/// The answer to a request that does not execute.
pub(crate) fn answer<B>(told: Told, accepted: Option<&HeaderValue>) -> Response<ResponseBody<B>> {
    let problem = match told {
        Ok(Claim::Completed(completed)) => return replay(&completed, accepted),
        Ok(Claim::Mismatch(first)) => Problem::mismatch(&first),
        Ok(Claim::InFlight { retry_after }) => Problem::in_flight(retry_after),
        Ok(Claim::Unknown(doubted)) => Problem::unknown(&doubted),
        Ok(Claim::RulesChanged { .. }) => Problem::rules_changed(),
        // An executor answers for itself; whoever else hears of it finds it running.
        Ok(Claim::Acquired(lease)) => Problem::in_flight(lease.length),
        Err(ErrorKind::Overloaded) => Problem::overloaded(),
        Err(_) => Problem::store_unavailable(),
    };
    problem.into_response()
}

/// The stored response again. Its framing is made anew; the date is today's.
fn replay<B>(completed: &Completed, accepted: Option<&HeaderValue>) -> Response<ResponseBody<B>> {
    let stored = &completed.response;
    let Some(body) = &stored.body else { return Problem::response_not_kept(stored.status).into_response() };
    let mut headers = HeaderMap::with_capacity(stored.headers.len() + 4);
    for (name, value) in &stored.headers {
        // What a store returns was a header once; should it not be any more, the rest still helps.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let body = coding::acceptable(body, &mut headers, accepted);
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    headers.insert(COMPLETED, http_date(completed.completed_at));
    headers.insert(EXPIRES, http_date(completed.expires_at));
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    *response.headers_mut() = headers;
    response.extensions_mut().insert(Outcome::Replayed);
    response
}

/// The last moment that an HTTP date can name, in the year 9999.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7).
fn http_date(moment: Timestamp) -> HeaderValue {
    let since = Duration::from_micros(u64::try_from(moment.as_micros()).unwrap_or_default()).min(LAST_DATE);
    let date = httpdate::HttpDate::from(UNIX_EPOCH + since);
    HeaderValue::try_from(date.to_string()).expect("a date is visible ASCII and spaces")
}
