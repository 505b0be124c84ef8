//! The response that an operator gives to an unknown record.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use oncegate_core::StoredResponse;
use oncegate_tower::replay::may_be_kept;

/// What is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ResponseError {
    /// `status`, `headers` or `body`.
    pub(crate) field: &'static str,
    text: String,
}

/// As much as the gate keeps of any response.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// Puts a response together that replays can carry.
pub(crate) fn stored(status: u16, headers: &[(String, String)], body: Bytes) -> Result<StoredResponse, ResponseError> {
    if !(200..=599).contains(&status) {
        return Err(fault("status", format!("status {status} is not a final one: 200 to 599 are allowed")));
    }
    if matches!(status, 204 | 205 | 304) && !body.is_empty() {
        return Err(fault("body", format!("a response with status {status} has no body: leave it out")));
    }
    if body.len() > BODY_BYTES_MAX {
        let length = body.len();
        return Err(fault("body", format!("the body has {length} bytes: at most {BODY_BYTES_MAX} are allowed")));
    }
    let headers = headers.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?;
    Ok(StoredResponse { status, headers, body: Some(body) })
}

fn header(name: &str, value: &str) -> Result<(String, Bytes), ResponseError> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| fault("headers", format!("{name:?} is not the name of a header")))?;
    if !may_be_kept(&parsed) {
        return Err(fault("headers", format!("{name} belongs to one exchange: no replay carries it")));
    }
    let value = HeaderValue::from_str(value)
        .map_err(|_| fault("headers", format!("the value of {name} has a character that headers cannot carry")))?;
    Ok((parsed.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes())))
}

fn fault(field: &'static str, text: String) -> ResponseError {
    ResponseError { field, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(status: u16, header: (&str, &str), body: &'static str) -> Result<StoredResponse, &'static str> {
        let headers = [(header.0.to_owned(), header.1.to_owned())];
        stored(status, &headers, Bytes::from_static(body.as_bytes())).map_err(|error| error.field)
    }

    #[test]
    fn a_response_must_be_one_that_replays_can_carry() {
        let plain = ("Content-Type", "text/plain");
        let response = field(201, plain, "paid").unwrap();
        assert_eq!(response.headers, [("content-type".to_owned(), Bytes::from_static(b"text/plain"))]);
        for status in [0, 100, 199, 600] {
            assert_eq!(field(status, plain, ""), Err("status"));
        }
        for name in ["Set-Cookie", "Content-Length", "Connection", "Access-Control-Allow-Origin", "a b", ""] {
            assert_eq!(field(201, (name, "1"), ""), Err("headers"), "{name}");
        }
        assert_eq!(field(201, ("x", "a\nb"), ""), Err("headers"));
        assert_eq!(field(204, plain, "paid"), Err("body"));
        assert!(field(204, plain, "").is_ok());
    }
}
