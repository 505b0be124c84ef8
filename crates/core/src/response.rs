//! What a repeat is answered with.

use std::borrow::Cow;

use bytes::Bytes;

/// A response as it is stored: the status, the headers that a replay may carry, and the body.
///
/// Header values are bytes (stored as Latin-1 in a JSON array of `[name, value]` pairs), in the
/// order and with the repetitions of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status code.
    pub status: u16,
    /// Lower-case names with their values.
    pub headers: Vec<(String, Bytes)>,
    /// `None`: not kept (too long, or the route stores no bodies); the repeat is told so and is not
    /// executed again. Empty is an empty body.
    pub body: Option<Bytes>,
}

impl StoredResponse {
    /// Roughly how many bytes this holds in memory; caches weigh by it.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        size_of::<Self>() + headers + self.body.as_ref().map_or(0, Bytes::len)
    }

    /// The headers as the JSON text that every store keeps and every way in reads.
    #[must_use]
    pub fn headers_json(&self) -> String {
        let pairs: Vec<_> = self.headers.iter().map(|(name, value)| (name.as_str(), latin1(value))).collect();
        serde_json::to_string(&pairs).expect("pairs of strings are always JSON")
    }

    /// Reads what [`Self::headers_json`] wrote.
    ///
    /// # Errors
    /// When the text is not a JSON array of pairs of strings.
    pub fn parse_headers(json: &str) -> Result<Vec<(String, Bytes)>, serde_json::Error> {
        let pairs: Vec<(String, String)> = serde_json::from_str(json)?;
        let byte = |character: char| u8::try_from(u32::from(character));
        let value = |text: &str| text.chars().map(byte).collect::<Result<Vec<u8>, _>>();
        let read = |(name, text): (String, String)| match value(&text) {
            Ok(bytes) => Ok((name, Bytes::from(bytes))),
            Err(_) => Err(serde::de::Error::custom("a header value is not Latin-1")),
        };
        pairs.into_iter().map(read).collect()
    }
}

/// Nearly every value is ASCII, which is the same text in Latin-1 and in UTF-8.
fn latin1(value: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(value) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        Ok(_) | Err(_) => value.iter().map(|&byte| char::from(byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_as_json_byte_for_byte() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let headers = vec![
            ("link".to_owned(), Bytes::from_static(b"<a>; rel=\"next\"")),
            ("link".to_owned(), Bytes::from_static(b"<b>")),
            ("x".to_owned(), Bytes::from(every_byte)),
            ("y".to_owned(), Bytes::from_static("é, ж".as_bytes())),
        ];
        let response = StoredResponse { status: 201, headers: headers.clone(), body: None };
        assert_eq!(StoredResponse::parse_headers(&response.headers_json()).unwrap(), headers);
        assert!(StoredResponse::parse_headers(r#"[["x","ж"]]"#).is_err());
    }
}
