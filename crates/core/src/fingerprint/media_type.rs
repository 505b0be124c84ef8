//! The media type: how a body can be read, and what of `Content-Type` counts.

/// A `Content-Type`: type and subtype in lower case, parameters as they were sent. Empty when there
/// is none.
#[derive(Debug, Default)]
pub(super) struct MediaType {
    text: Vec<u8>,
    essence_length: usize,
}

/// A form in which bodies of a media type can be compared by meaning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form<'a> {
    /// `application/json`, or a type with the suffix `+json` (RFC 6839).
    Json,
    /// `multipart/...` with this boundary.
    Multipart {
        /// The boundary, without the dashes before it.
        boundary: &'a [u8],
    },
}

// === impl MediaType ===

impl MediaType {
    pub(super) fn parse(value: &[u8]) -> Self {
        let value = trim(value);
        let (essence, parameters) = value.split_at(find(value, b';'));
        let essence = trim(essence);
        let mut text = Vec::with_capacity(value.len());
        text.extend(essence.iter().map(u8::to_ascii_lowercase));
        text.extend_from_slice(parameters);
        Self { text, essence_length: essence.len() }
    }

    /// All of it: what counts where the bytes are compared, since a parameter such as `charset` can
    /// say what they mean.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Type and subtype: what counts where the meaning is compared. JSON has no parameters that could
    /// change it, and the one of multipart, the boundary, is new in each retry.
    pub(super) fn essence(&self) -> &[u8] {
        &self.text[..self.essence_length]
    }

    pub(super) fn form(&self) -> Option<Form<'_>> {
        let essence = self.essence();
        if essence == b"application/json" || (essence.contains(&b'/') && essence.ends_with(b"+json")) {
            Some(Form::Json)
        } else if essence.starts_with(b"multipart/") {
            self.boundary().map(|boundary| Form::Multipart { boundary })
        } else {
            None
        }
    }

    /// The boundary, if there is exactly one, all parameters are well formed, and RFC 2046 allows it.
    fn boundary(&self) -> Option<&[u8]> {
        let mut found = None;
        let mut rest = &self.text[self.essence_length..];
        while !rest.is_empty() {
            let (name, value, behind) = parameter(rest)?;
            if name.eq_ignore_ascii_case(b"boundary") && found.replace(value).is_some() {
                return None;
            }
            rest = behind;
        }
        found.filter(|boundary| is_boundary(boundary))
    }
}

/// Without the white space that may stand around a field value (RFC 9110 section 5.5).
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

pub(super) fn is_token(text: &[u8]) -> bool {
    let is_token_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token_char)
}

/// Name and value of the parameter at the start of the text, and the text behind it; both are empty
/// for an empty parameter. None when it is malformed.
fn parameter(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = trim(trim(text).strip_prefix(b";")?);
    if text.is_empty() || text.starts_with(b";") {
        return Some((b"", b"", text));
    }
    let (name, value) = text.split_at(find(text, b'='));
    let value = value.strip_prefix(b"=")?;
    let (value, behind) = match value.strip_prefix(b"\"") {
        // Escapes are allowed here, but not every reader knows them.
        Some(quoted) => {
            let (value, behind) = quoted.split_at(find(quoted, b'"'));
            let is_plain = !value.contains(&b'\\');
            (is_plain.then_some(value)?, trim(behind.strip_prefix(b"\"")?))
        }
        // Wider than a token: `=` and `/` are usual in boundaries that should have been quoted.
        None => {
            let (untrimmed, behind) = value.split_at(find(value, b';'));
            let value = trim(untrimmed);
            let is_plain = untrimmed.starts_with(value) && !value.iter().any(|byte| b" \t\"\\".contains(byte));
            (is_plain.then_some(value)?, behind)
        }
    };
    let is_at_end = behind.is_empty() || behind.starts_with(b";");
    (is_token(name) && is_at_end).then_some((name, value, behind))
}

/// RFC 2046 section 5.1.1, `boundary`.
fn is_boundary(text: &[u8]) -> bool {
    let is_boundary_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (1..=70).contains(&text.len()) && text.iter().all(is_boundary_char) && !text.ends_with(b" ")
}

fn find(text: &[u8], byte: u8) -> usize {
    memchr::memchr(byte, text).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(value: &str) -> Option<String> {
        let media_type = MediaType::parse(value.as_bytes());
        match media_type.form() {
            Some(Form::Multipart { boundary }) => Some(String::from_utf8(boundary.to_vec()).unwrap()),
            Some(Form::Json) | None => None,
        }
    }

    #[test]
    fn type_and_subtype_are_in_lower_case_and_parameters_as_sent() {
        let media_type = MediaType::parse(b" Text/Plain ; charset=UTF-8 ");
        assert_eq!(media_type.essence(), b"text/plain");
        assert_eq!(media_type.as_bytes(), b"text/plain; charset=UTF-8");
        assert_eq!(MediaType::parse(b"").as_bytes(), b"");
    }

    #[test]
    fn json_is_recognised_by_type_and_suffix() {
        let is_json = |value: &str| MediaType::parse(value.as_bytes()).form() == Some(Form::Json);
        for value in ["application/json", "Application/JSON;charset=utf-8", "application/vnd.api+json; v=1", "a/b+JSON"]
        {
            assert!(is_json(value), "{value}");
        }
        for value in ["", "+json", "text/plain", "application/jsonp", "text/json", "application/json, text/plain"] {
            assert!(!is_json(value), "{value}");
        }
    }

    #[test]
    fn boundaries_are_read_from_all_usual_forms() {
        for value in [
            "multipart/form-data; boundary=AaB03x",
            "Multipart/Form-Data;BOUNDARY=AaB03x",
            "multipart/form-data; boundary=\"AaB03x\"",
            "multipart/form-data ; charset=utf-8 ; boundary=AaB03x ; ",
            "multipart/related; type=\"a; boundary=no\"; boundary=AaB03x",
            "multipart/form-data;; boundary=AaB03x;",
        ] {
            assert_eq!(boundary(value).as_deref(), Some("AaB03x"), "{value}");
        }
        assert_eq!(boundary("multipart/form-data; boundary=----=_Part.1").as_deref(), Some("----=_Part.1"));
        assert_eq!(boundary("multipart/mixed; boundary=\"a b\"").as_deref(), Some("a b"));
    }

    #[test]
    fn doubtful_boundaries_are_not_used() {
        for value in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=\"\"",
            "multipart/form-data; boundary=\"a",
            "multipart/form-data; boundary=\"a\"b",
            "multipart/form-data; boundary=\"a\\b\"",
            "multipart/form-data; boundary=a\"b",
            "multipart/form-data; boundary=a; boundary=a",
            "multipart/form-data; boundary=\"a \"",
            "multipart/form-data; boundary=a@b",
            "multipart/form-data; boundary = a",
            "multipart/form-data; boundary= a",
            "multipart/form-data; boundary=a b",
            "multipart/form-data; boundary",
            "multipart/form-data; flag; boundary=a",
            "text/plain; boundary=a",
            &format!("multipart/form-data; boundary={}", "a".repeat(71)),
        ] {
            assert_eq!(boundary(value), None, "{value}");
        }
        let longest = "a".repeat(70);
        assert_eq!(boundary(&format!("multipart/form-data; boundary={longest}")), Some(longest));
    }
}
