//! The rules for request heads on their way in.

use http::{HeaderMap, HeaderValue, Method, Request, Version, header};

use super::{
    fields::Fields, forwarded::Forwarded, hop_by_hop::ConnectionOptions, protected::ProtectedHeaders, refusal::Refusal,
};

/// Makes of the head that came the head that is forwarded. `fields`: those that it has.
///
/// # Errors
/// Why the request must not be forwarded; its head is then in no particular state.
pub(super) fn prepare<B>(
    request: &mut Request<B>,
    fields: Fields,
    forwarded: &Forwarded,
    protected: &ProtectedHeaders,
) -> Result<(), Refusal> {
    if *request.method() == Method::CONNECT {
        return Err(Refusal::Connect);
    }
    settle_host(request, fields)?;
    end_connection(request.headers_mut(), fields, protected)?;
    if *request.method() == Method::OPTIONS || *request.method() == Method::TRACE {
        count_forward(request)?;
    }
    let version = request.version();
    if version == Version::HTTP_2 {
        join_cookies(request.headers_mut());
    }
    forwarded.apply(request.headers_mut(), fields, version);
    Ok(())
}

/// Exactly one `Host`, which is that of the target where the target names one (RFC 9112 3.2, RFC 9113 8.3.1).
///
/// HTTP/1.0 need not send any; the upstream's own name is added further on.
fn settle_host<B>(request: &mut Request<B>, fields: Fields) -> Result<(), Refusal> {
    let headers = request.headers();
    // The lengths differ where any field is repeated.
    if headers.len() != headers.keys_len() && headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Refusal::HostRepeated);
    }
    if let Some(authority) = request.uri().authority() {
        // The user part, if any, is no part of `Host` (RFC 9110 4.2.4).
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        let host = HeaderValue::from_str(host).expect("an authority is visible ASCII");
        request.headers_mut().insert(header::HOST, host);
    } else if !fields.host && request.version() == Version::HTTP_11 {
        return Err(Refusal::HostMissing);
    }
    Ok(())
}

/// Removes what was meant for this hop, and says again what is meant for the next one too.
fn end_connection(headers: &mut HeaderMap, fields: Fields, protected: &ProtectedHeaders) -> Result<(), Refusal> {
    if fields.transfer_encoding && !is_chunked_once(headers) {
        return Err(Refusal::TransferCoding);
    }
    let options = ConnectionOptions::of(headers, fields);
    if options.names_any_of(protected) {
        return Err(Refusal::ProtectedNamed);
    }
    options.remove_from(headers, fields);
    if fields.te {
        let takes_trailers = headers.get_all(header::TE).iter().any(names_trailers);
        headers.remove(header::TE);
        if takes_trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
            headers.append(header::CONNECTION, HeaderValue::from_static("te"));
        }
    }
    if fields.upgrade
        && let Some(upgrade) = headers.remove(header::UPGRADE)
        && options.upgrade
        && !names_http(&upgrade)
    {
        headers.insert(header::UPGRADE, upgrade);
        headers.append(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(())
}

/// hyper undoes the chunks and would leave any other coding in place, though the field that names it is about to go.
fn is_chunked_once(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    is_chunked && codings.next().is_none()
}

fn names_trailers(line: &HeaderValue) -> bool {
    line.as_bytes().split(|&byte| byte == b',').any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Whether it asks for another version of HTTP. An upstream that switched to HTTP/2 on our connection would get
/// requests that nobody here has seen ("h2c smuggling"), and HTTP/2 itself has given this way up (RFC 9113 3.1).
fn names_http(upgrade: &HeaderValue) -> bool {
    upgrade.as_bytes().split(|&byte| byte == b',').any(|protocol| {
        let protocol = protocol.trim_ascii();
        protocol.eq_ignore_ascii_case(b"h2c") || protocol.get(..5).is_some_and(|p| p.eq_ignore_ascii_case(b"http/"))
    })
}

/// One forward less (RFC 9110 7.6.2). What is no number is left alone.
fn count_forward<B>(request: &mut Request<B>) -> Result<(), Refusal> {
    let forwards = request.headers().get(header::MAX_FORWARDS);
    match forwards.and_then(|value| value.to_str().ok()?.parse::<u64>().ok()) {
        None => Ok(()),
        Some(0) if *request.method() == Method::TRACE => Err(Refusal::LastHopOfTrace),
        Some(0) => Err(Refusal::LastHop),
        Some(forwards) => {
            request.headers_mut().insert(header::MAX_FORWARDS, HeaderValue::from(forwards - 1));
            Ok(())
        }
    }
}

/// HTTP/2 clients may send each cookie in a line of its own; HTTP/1 servers expect one line (RFC 9113 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1 {
        let joined = lines.join(&b"; "[..]);
        let joined = HeaderValue::from_bytes(&joined).expect("valid values stay valid when joined by a semicolon");
        headers.insert(header::COOKIE, joined);
    }
}
