//! The one maker of problem documents (RFC 9457) and of their meaning.
//!
//! A problem never echoes the key's bytes and never shows internal text.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use oncegate_core::{Doubted, FirstUse, KeyError, Scope};
use serde_json::{Map, Value, json};

use crate::{Outcome, ResponseBody, UpstreamErrorKind};

// === types ===

/// Where the documents of the problem types are served; `type` members are this and the name.
pub const TYPE_PREFIX: &str = "/.well-known/idempotency/problems/";

/// Names the problem in a header too, so that a guard in front of another recognises the answers of
/// its like without reading their bodies: such an answer is never stored.
pub const PROBLEM_HEADER: HeaderName = HeaderName::from_static("oncegate-problem");

/// One of our own answers.
#[derive(Debug, Clone)]
pub struct Problem {
    kind: ProblemKind,
    retry: Retry,
    detail: String,
    retry_after: Option<Duration>,
    members: Map<String, Value>,
    outcome: Outcome,
}

/// Which of our own answers it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The route requires a key.
    KeyMissing,
    /// The key is not 1 to 255 visible ASCII characters, quoted or bare.
    KeyInvalid,
    /// More than one key.
    KeyRepeated,
    /// The route does not serve anonymous callers.
    ScopeMissing,
    /// The credential that names the caller does not verify.
    CredentialInvalid,
    /// The body is longer than the route allows, as sent or decoded.
    RequestTooLarge,
    /// The client did not send its whole body.
    RequestCutShort,
    /// The key belongs to another request.
    Mismatch,
    /// The first request with this key still runs.
    InFlight,
    /// Nobody can tell whether the first request had its effect.
    Unknown,
    /// Recorded under other fingerprint rules.
    RulesChanged,
    /// It ran, but its response was not kept.
    ResponseNotKept,
    /// Nothing was sent to the upstream.
    UpstreamUnreachable,
    /// The upstream's answer was lost.
    UpstreamFailed,
    /// The upstream did not answer in time.
    UpstreamTimeout,
    /// The store of records cannot be asked.
    StoreUnavailable,
    /// More requests than this process takes at once.
    Overloaded,
}

/// How the client may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Send the same request with the same key.
    SameKey,
    /// Correct the request, or take a new key for a new intent.
    NewKey,
    /// Later.
    Later,
    /// Somebody must look.
    Operator,
}

// === impl ProblemKind ===

impl ProblemKind {
    /// Every kind: each has a page.
    pub const ALL: [Self; 17] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::KeyRepeated,
        Self::ScopeMissing,
        Self::CredentialInvalid,
        Self::RequestTooLarge,
        Self::RequestCutShort,
        Self::Mismatch,
        Self::InFlight,
        Self::Unknown,
        Self::RulesChanged,
        Self::ResponseNotKept,
        Self::UpstreamUnreachable,
        Self::UpstreamFailed,
        Self::UpstreamTimeout,
        Self::StoreUnavailable,
        Self::Overloaded,
    ];

    /// The last segment of its `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().1
    }

    /// Its title, the same for every occurrence.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// What was done with the request.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::KeyMissing
            | Self::KeyInvalid
            | Self::KeyRepeated
            | Self::ScopeMissing
            | Self::CredentialInvalid
            | Self::RequestTooLarge
            | Self::RequestCutShort => Outcome::Rejected,
            Self::Mismatch | Self::RulesChanged => Outcome::Mismatch,
            Self::InFlight => Outcome::InFlight,
            Self::Unknown => Outcome::Unknown,
            Self::ResponseNotKept => Outcome::Replayed,
            Self::UpstreamUnreachable | Self::UpstreamFailed | Self::UpstreamTimeout => Outcome::Executed,
            Self::StoreUnavailable | Self::Overloaded => Outcome::Unavailable,
        }
    }

    fn row(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::KeyMissing => ("key-missing", StatusCode::BAD_REQUEST, "Idempotency key missing"),
            Self::KeyInvalid => ("key-invalid", StatusCode::BAD_REQUEST, "Idempotency key invalid"),
            Self::KeyRepeated => ("key-repeated", StatusCode::BAD_REQUEST, "More than one idempotency key"),
            Self::ScopeMissing => ("scope-missing", StatusCode::BAD_REQUEST, "Caller not identified"),
            Self::CredentialInvalid => ("credential-invalid", StatusCode::UNAUTHORIZED, "Credential invalid"),
            Self::RequestTooLarge => ("request-too-large", StatusCode::PAYLOAD_TOO_LARGE, "Request too large"),
            Self::RequestCutShort => ("request-cut-short", StatusCode::BAD_REQUEST, "Request cut short"),
            Self::Mismatch => ("mismatch", StatusCode::UNPROCESSABLE_ENTITY, "Key used for another request"),
            Self::InFlight => ("in-flight", StatusCode::CONFLICT, "First request still running"),
            Self::Unknown => ("unknown", StatusCode::CONFLICT, "Outcome unknown"),
            Self::RulesChanged => ("rules-changed", StatusCode::CONFLICT, "Comparison rules changed"),
            Self::ResponseNotKept => ("response-not-kept", StatusCode::GONE, "Completed, response not kept"),
            Self::UpstreamUnreachable => {
                ("upstream-unreachable", StatusCode::BAD_GATEWAY, "Upstream unreachable, nothing sent")
            }
            Self::UpstreamFailed => ("upstream-failed", StatusCode::BAD_GATEWAY, "Upstream answer lost"),
            Self::UpstreamTimeout => ("upstream-timeout", StatusCode::GATEWAY_TIMEOUT, "Upstream too slow"),
            Self::StoreUnavailable => {
                ("store-unavailable", StatusCode::SERVICE_UNAVAILABLE, "Idempotency store unavailable")
            }
            Self::Overloaded => ("overloaded", StatusCode::SERVICE_UNAVAILABLE, "Too many requests at once"),
        }
    }
}

// === impl Retry ===

impl Retry {
    /// The value of the member `retry`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::NewKey => "new-key",
            Self::Later => "later",
            Self::Operator => "operator",
        }
    }
}

// === impl Problem ===

impl Problem {
    /// The route requires a key and the request brought none.
    #[must_use]
    pub fn key_missing(source: &str) -> Self {
        let detail =
            format!("this route requires an idempotency key in {source}; send a new random one, such as a UUID");
        Self::new(ProblemKind::KeyMissing, Retry::NewKey, detail)
    }

    /// The key cannot be read.
    #[must_use]
    pub fn key_invalid(source: &str, error: KeyError) -> Self {
        // Two lines that a proxy has joined look like a bare key with a comma.
        let is_joined = matches!(error, KeyError::Joined { found: ',' });
        let kind = if is_joined { ProblemKind::KeyRepeated } else { ProblemKind::KeyInvalid };
        Self::new(kind, Retry::NewKey, format!("{source}: {error}"))
    }

    /// More than one key: proxies differ in which one they would take.
    #[must_use]
    pub fn key_repeated(source: &str) -> Self {
        Self::new(ProblemKind::KeyRepeated, Retry::NewKey, format!("{source} was sent more than once; send it once"))
    }

    /// Nothing in the request says who calls.
    #[must_use]
    pub fn scope_missing(expected: &str) -> Self {
        let detail = format!("this route does not guard anonymous requests; send {expected}");
        Self::new(ProblemKind::ScopeMissing, Retry::NewKey, detail)
    }

    /// What identifies the caller is longer than a scope may be.
    #[must_use]
    pub fn scope_too_long() -> Self {
        let detail = format!("what identifies the caller has more than {} bytes together", Scope::LENGTH_MAX);
        Self::new(ProblemKind::ScopeMissing, Retry::NewKey, detail)
    }

    /// The client did not send its whole body; nothing was forwarded.
    #[must_use]
    pub fn request_cut_short() -> Self {
        let detail = "the request's body ended early, so nothing was executed".to_owned();
        Self::new(ProblemKind::RequestCutShort, Retry::SameKey, detail)
    }

    /// The body is longer than `bytes_max`.
    #[must_use]
    pub fn request_too_large(bytes_max: u64) -> Self {
        let detail = format!("the body has more than {bytes_max} bytes, the limit of this route");
        Self::new(ProblemKind::RequestTooLarge, Retry::NewKey, detail)
    }

    /// The key belongs to another request of the same caller.
    #[must_use]
    pub fn mismatch(first: &FirstUse) -> Self {
        let (operation, state) = (first.operation.as_str(), first.state.as_str());
        let detail = format!(
            "this key was first used for another request, {operation} ({state}); \
             repeat exactly that request to learn its outcome, or take a new key for a new attempt"
        );
        let problem = Self::new(ProblemKind::Mismatch, Retry::NewKey, detail);
        problem.with("first_request", json!(operation)).with("state", json!(state))
    }

    /// The first request still runs.
    #[must_use]
    pub fn in_flight(retry_after: Duration) -> Self {
        let detail = "the first request with this key is still running; send the same request again later".to_owned();
        Self { retry_after: Some(retry_after), ..Self::new(ProblemKind::InFlight, Retry::SameKey, detail) }
    }

    /// The outcome of the first request was lost.
    #[must_use]
    pub fn unknown(doubted: &Doubted) -> Self {
        let reason = doubted.reason.as_str();
        let detail = format!(
            "nobody can tell whether the first request with this key had its effect ({reason}); \
             an operator must look before it may run again"
        );
        Self::new(ProblemKind::Unknown, Retry::Operator, detail).with("reason", json!(reason))
    }

    /// Recorded under other fingerprint rules.
    #[must_use]
    pub fn rules_changed() -> Self {
        let detail = "the first request with this key was recorded under other comparison rules, so nobody can tell \
                      whether this one is the same";
        Self::new(ProblemKind::RulesChanged, Retry::Operator, detail.to_owned())
    }

    /// It ran and ended with `status`, but its body was not kept.
    #[must_use]
    pub fn response_not_kept(status: u16) -> Self {
        let detail = format!(
            "the first request with this key was executed and answered with status {status}; its response was not \
             kept, and it is not executed again"
        );
        Self::new(ProblemKind::ResponseNotKept, Retry::NewKey, detail).with("first_status", json!(status))
    }

    /// A call of the upstream that brought no whole response. `is_lost`: the record is unknown now.
    #[must_use]
    pub fn upstream(kind: UpstreamErrorKind, is_lost: bool) -> Self {
        let retry = if is_lost { Retry::Operator } else { Retry::SameKey };
        match kind {
            UpstreamErrorKind::Unreachable => Self::new(
                ProblemKind::UpstreamUnreachable,
                Retry::SameKey,
                "the upstream could not be reached and nothing was sent to it".to_owned(),
            ),
            UpstreamErrorKind::Failed => Self::new(
                ProblemKind::UpstreamFailed,
                retry,
                "the request was sent, but the connection ended before the whole answer came".to_owned(),
            ),
            UpstreamErrorKind::Timeout => Self::new(
                ProblemKind::UpstreamTimeout,
                retry,
                "the request was sent, but no answer came in time".to_owned(),
            ),
        }
    }

    /// The same for a request that was not guarded: there is no record, so a repeat is executed. `is_idempotent`: by its
    /// method, that is harmless (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn upstream_unguarded(kind: UpstreamErrorKind, is_idempotent: bool) -> Self {
        let problem = Self::upstream(kind, false);
        if kind == UpstreamErrorKind::Unreachable || is_idempotent {
            return Self { retry: Retry::Later, outcome: Outcome::Bypassed, ..problem };
        }
        let detail = format!("{}; it was not guarded, so a repeat may execute it a second time", problem.detail);
        Self { retry: Retry::Operator, detail, outcome: Outcome::Bypassed, ..problem }
    }

    /// The store cannot be asked; the upstream was not called.
    #[must_use]
    pub fn store_unavailable() -> Self {
        let detail = "the store of idempotency records cannot be asked, so the request was not executed".to_owned();
        let problem = Self::new(ProblemKind::StoreUnavailable, Retry::SameKey, detail);
        Self { retry_after: Some(Duration::from_secs(1)), ..problem }
    }

    /// More at once than this process takes; the upstream was not called.
    #[must_use]
    pub fn overloaded() -> Self {
        let detail = "more requests at once than this server takes; the request was not executed".to_owned();
        let problem = Self::new(ProblemKind::Overloaded, Retry::SameKey, detail);
        Self { retry_after: Some(Duration::from_secs(1)), ..problem }
    }

    /// Which problem it is.
    #[must_use]
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The response: problem document, `Retry-After` (whole seconds, at least 1), never cached.
    #[must_use]
    pub fn into_response<B>(self) -> Response<ResponseBody<B>> {
        let status = self.kind.status();
        let mut document = Map::new();
        document.insert("type".to_owned(), json!(format!("{TYPE_PREFIX}{}", self.kind.name())));
        document.insert("title".to_owned(), json!(self.kind.title()));
        document.insert("status".to_owned(), json!(status.as_u16()));
        document.insert("detail".to_owned(), json!(self.detail));
        document.insert("retry".to_owned(), json!(self.retry.as_str()));
        document.extend(self.members);
        // The line end is for people with curl.
        let body = Bytes::from(format!("{}\n", Value::Object(document)));
        let mut response = Response::new(ResponseBody::whole(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(PROBLEM_HEADER, HeaderValue::from_static(self.kind.name()));
        if let Some(retry_after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        response.extensions_mut().insert(self.outcome);
        response
    }

    fn new(kind: ProblemKind, retry: Retry, detail: String) -> Self {
        Self { kind, retry, detail, retry_after: None, members: Map::new(), outcome: kind.outcome() }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }
}

/// `Retry-After` has whole seconds. Never more than what is left of a lease, so that a client that
/// obeys finds it ended or the answer stored; seldom so much, as most handlers end long before their
/// lease; but never 0, which clients take for "at once".
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().clamp(1, 2)
}
