//! What the client library's errors say about how far a request got.

use std::{error::Error, io};

use oncegate_tower::{BoxError, UpstreamError, UpstreamErrorKind};

/// No connection came about, so nothing was sent.
pub(super) fn of_connection(error: BoxError) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Unreachable, error)
}

/// A request that brought no response head. `was_begun`: hyper did not hand it back, which it does exactly where its
/// connection had closed before one byte of it was sent.
///
/// What was begun is ambiguous, a message that ended too early above all: it comes as well from servers that closed an
/// idle connection as from those that executed the request and died.
pub(super) fn of_request(error: hyper::Error, was_begun: bool) -> UpstreamError {
    let kind = match was_begun {
        false => UpstreamErrorKind::Unreachable,
        true if is_late(&error) => UpstreamErrorKind::Timeout,
        true => UpstreamErrorKind::Failed,
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
fn is_late(error: &hyper::Error) -> bool {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| cause.kind() == io::ErrorKind::TimedOut)
}
