//! What the client library's errors say about how far a request got.

use std::{error::Error, io};

use hyper_util::client::legacy;
use oncegate_tower::{UpstreamError, UpstreamErrorKind};

/// A request that brought no response head.
pub(super) fn of_request(error: legacy::Error) -> UpstreamError {
    let kind = if was_never_sent(&error) {
        UpstreamErrorKind::Unreachable
    } else if is_late(&error) {
        UpstreamErrorKind::Timeout
    } else {
        UpstreamErrorKind::Failed
    };
    UpstreamError::new(kind, error)
}

/// A response body that broke off.
pub(super) fn of_body(error: hyper::Error) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Failed, error)
}

/// The upstream switched protocols without being asked.
pub(super) fn unasked_upgrade() -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Failed, "the upstream answered 101 to a request for no other protocol")
}

/// The upstream encoded its response in a way that nobody offered to understand.
pub(super) fn transfer_coding() -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Failed, "the upstream used a transfer coding other than chunked")
}

/// Whether the upstream took no more of the request: see [`Socket`](super::super::socket::Socket).
fn is_late(error: &legacy::Error) -> bool {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

/// Whether it is certain that not one byte was sent. Three ways to know:
///
/// - no connection came about;
/// - the library knew of no connection for this request yet: it attaches that to each error behind the moment when the
///   request is handed over;
/// - the request was handed back, because its connection had closed before the request was begun. hyper calls exactly
///   that `canceled`.
///
/// Everything else is ambiguous, a message that ended too early above all: it comes as well from servers that closed
/// an idle connection as from those that executed the request and died.
fn was_never_sent(error: &legacy::Error) -> bool {
    error.is_connect()
        || error.connect_info().is_none()
        || error.source().and_then(|source| source.downcast_ref()).is_some_and(hyper::Error::is_canceled)
}
