//! The trace that a request belongs to (W3C Trace Context), which passes through the gate unchanged.

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceId([u8; 32]);

impl TraceId {
    /// Out of `traceparent: VERSION-TRACE-PARENT-FLAGS`; `None` where there is no valid one.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parts = headers.get(TRACEPARENT)?.as_bytes().split(|&byte| byte == b'-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_valid = is_hex(version, 2) && is_hex(parent, 16) && is_hex(flags, 2) && is_hex(trace, 32);
        // Later versions may have more behind it; version 0 may not, and ff is none.
        let is_known = version != b"ff" && (version != b"00" || parts.next().is_none());
        let is_set = trace.iter().any(|&digit| digit != b'0');
        trace.try_into().ok().filter(|_| is_valid && is_known && is_set).map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are text")
    }
}

/// Whether it is so many hexadecimal digits; capital ones are not allowed.
fn is_hex(text: &[u8], length: usize) -> bool {
    text.len() == length && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
