//! A stored body in a coding that the present client accepts.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, header};

/// A stored body that decodes to more is sent as it is: a bomb would fill our memory first.
const DECODED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The body as the client accepts it: decoded, and without `Content-Encoding`, if it was stored in
/// gzip and the client does not take that (RFC 9110 section 12.5.3). Header and bytes always agree.
pub(super) fn acceptable(body: &Bytes, headers: &mut HeaderMap, accepted: Option<&HeaderValue>) -> Bytes {
    let coding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let is_gzip = coding.is_some_and(|coding| matches!(coding.to_ascii_lowercase().as_str(), "gzip" | "x-gzip"));
    if !is_gzip || accepts_gzip(accepted) {
        return body.clone();
    }
    let mut decoded = Vec::new();
    let mut decoder = MultiGzDecoder::new(&body[..]).take(DECODED_BYTES_MAX + 1);
    match decoder.read_to_end(&mut decoded) {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= DECODED_BYTES_MAX) => {
            headers.remove(header::CONTENT_ENCODING);
            decoded.into()
        }
        Ok(_) | Err(_) => body.clone(),
    }
}

/// Whether `Accept-Encoding` takes gzip. Without the header every coding is acceptable.
fn accepts_gzip(accepted: Option<&HeaderValue>) -> bool {
    let Some(accepted) = accepted else { return true };
    let Ok(accepted) = accepted.to_str() else { return false };
    let mut by_wildcard = false;
    for item in accepted.split(',') {
        let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
        let weight = parameters.trim().strip_prefix("q=").unwrap_or("1");
        let is_accepted = weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0);
        match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return is_accepted,
            "*" => by_wildcard = is_accepted,
            _ => {}
        }
    }
    by_wildcard
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzipped(text: &str) -> (Bytes, HeaderMap) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        (encoder.finish().unwrap().into(), headers)
    }

    #[test]
    fn header_and_bytes_always_agree() {
        for (accepted, is_decoded) in [
            (None, false),
            (Some("gzip"), false),
            (Some("br, gzip;q=0.5"), false),
            (Some("*"), false),
            (Some("identity"), true),
            (Some("gzip;q=0"), true),
            (Some("gzip; q=0, *"), true),
            (Some(""), true),
        ] {
            let (body, mut headers) = gzipped("the same text");
            let accepted_value = accepted.map(|accepted| HeaderValue::from_str(accepted).unwrap());
            let sent = acceptable(&body, &mut headers, accepted_value.as_ref());
            assert_eq!(headers.contains_key(header::CONTENT_ENCODING), !is_decoded, "{accepted:?}");
            assert_eq!(sent == "the same text", is_decoded, "{accepted:?}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_sent_as_it_is() {
        let (body, mut headers) = gzipped("the same text");
        let broken = body.slice(..body.len() - 4);
        let sent = acceptable(&broken, &mut headers, Some(&HeaderValue::from_static("identity")));
        assert_eq!(sent, broken);
        assert!(headers.contains_key(header::CONTENT_ENCODING));
    }
}
