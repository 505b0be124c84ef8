//! The rules for response heads on their way out.

use http::{HeaderValue, Response, StatusCode, Version, header};
use oncegate_tower::UpstreamError;

use super::{super::hop_by_hop::ConnectionOptions, failure};

/// Whether the response ends HTTP on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switched {
    No,
    Yes,
}

/// Whether the upstream closes the connection behind this response.
pub(super) fn is_last<B>(response: &Response<B>) -> bool {
    let headers = response.headers();
    response.version() == Version::HTTP_10
        || headers.contains_key(header::CONNECTION) && ConnectionOptions::of(headers).close
}

/// Removes what was meant for the connection to us.
///
/// # Errors
/// A body in a coding that we cannot undo is no body.
pub(super) fn clean<B>(response: &mut Response<B>) -> Result<Switched, UpstreamError> {
    // The status line would repeat it to the client, and forbid chunks.
    *response.version_mut() = Version::HTTP_11;
    let status = response.status();
    let headers = response.headers_mut();
    for coding in headers.get_all(header::TRANSFER_ENCODING) {
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(failure::transfer_coding());
        }
    }
    ConnectionOptions::of(headers).remove_from(headers);
    headers.remove(header::TE);
    // 426 says by `Upgrade` which protocol it wants.
    let switched = if status == StatusCode::SWITCHING_PROTOCOLS { Switched::Yes } else { Switched::No };
    if switched == Switched::Yes || status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    } else {
        headers.remove(header::UPGRADE);
    }
    Ok(switched)
}
