//! The rules for response heads on their way out.

use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use oncegate_tower::UpstreamError;

use super::{
    super::{fields::Fields, hop_by_hop::ConnectionOptions},
    failure,
};

/// What a response says about the connection that it came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// It may be used again.
    Kept,
    /// The upstream closes it.
    Closed,
    /// It speaks another protocol.
    Switched,
}

/// Removes what was meant for the connection to us.
///
/// # Errors
/// A body in a coding that we cannot undo is no body.
pub(super) fn clean<B>(response: &mut Response<B>) -> Result<Afterwards, UpstreamError> {
    let is_old = response.version() == Version::HTTP_10;
    // The status line would repeat it to the client, and forbid chunks.
    *response.version_mut() = Version::HTTP_11;
    let status = response.status();
    let headers = response.headers_mut();
    let fields = Fields::of(headers);
    if fields.transfer_encoding && !is_chunked(headers) {
        return Err(failure::transfer_coding());
    }
    if fields.transfer_encoding {
        // It overrides a length that is sent along (RFC 9112 section 6.3), and a client that counted by that length would
        // take the rest of this answer for the next one.
        headers.remove(header::CONTENT_LENGTH);
    }
    let options = ConnectionOptions::of(headers, fields);
    options.remove_from(headers, fields);
    if fields.te {
        headers.remove(header::TE);
    }
    // 426 says by `Upgrade` which protocol it wants.
    if status == StatusCode::SWITCHING_PROTOCOLS || status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    } else if fields.upgrade {
        headers.remove(header::UPGRADE);
    }
    Ok(match status {
        StatusCode::SWITCHING_PROTOCOLS => Afterwards::Switched,
        _ if options.close || is_old => Afterwards::Closed,
        _ => Afterwards::Kept,
    })
}

fn is_chunked(headers: &HeaderMap) -> bool {
    headers.get_all(header::TRANSFER_ENCODING).iter().all(|line| line.as_bytes().eq_ignore_ascii_case(b"chunked"))
}
