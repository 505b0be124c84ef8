//! Text with placeholders: `{key}` and `{n}`.

use std::str::FromStr;

use http::{HeaderName, HeaderValue};
use uuid::Uuid;

/// A fresh key and its number in the storm, from 1.
#[derive(Clone, Debug)]
pub(super) struct NumberedKey {
    pub(super) number: u32,
    pub(super) key: String,
}

/// Text in which `{key}` and `{n}` are replaced; all other braces are left alone, so JSON needs no escaping.
#[derive(Clone, Debug)]
pub(super) struct Template(String);

/// One header to send: a fixed name, a value with placeholders.
#[derive(Clone, Debug)]
pub(super) struct HeaderTemplate {
    pub(super) name: HeaderName,
    value: Template,
}

// === impl NumberedKey ===

impl NumberedKey {
    /// A key that nobody has used.
    pub(super) fn fresh(number: u32) -> Self {
        Self { number, key: Uuid::new_v4().to_string() }
    }

    /// A key to try templates with before anything is sent. Every fresh key has the same alphabet, so what is valid
    /// with this one is valid with all.
    pub(super) fn sample() -> Self {
        Self { number: 1, key: Uuid::nil().to_string() }
    }
}

// === impl Template ===

impl Template {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn fill(&self, key: &NumberedKey) -> String {
        self.0.replace("{key}", &key.key).replace("{n}", &key.number.to_string())
    }

    /// Whether each key gets a text of its own.
    pub(super) fn names_the_key(&self) -> bool {
        self.0.contains("{key}") || self.0.contains("{n}")
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl HeaderTemplate ===

impl HeaderTemplate {
    pub(super) fn value(&self, key: &NumberedKey) -> HeaderValue {
        HeaderValue::from_str(&self.value.fill(key)).expect("the value was tried with a sample key when it was parsed")
    }
}

impl FromStr for HeaderTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("a header is written as 'Name: value'")?;
        let name = HeaderName::from_str(name.trim())
            .map_err(|_| format!("{:?} is not a header name: letters, digits and - are allowed", name.trim()))?;
        if name == http::header::CONTENT_LENGTH || name == http::header::TRANSFER_ENCODING {
            return Err(format!("{name} follows from the body and cannot be set"));
        }
        let value = Template::new(value.trim());
        HeaderValue::from_str(&value.fill(&NumberedKey::sample()))
            .map_err(|_| format!("the value of {name} may hold visible ASCII characters, spaces and tabs only"))?;
        Ok(Self { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_left_alone() {
        let template = Template::new(r#"{"reference":"{key}","n":{n},"x":{}}"#);
        let key = NumberedKey { number: 7, key: "k-1".to_owned() };

        assert_eq!(template.fill(&key), r#"{"reference":"k-1","n":7,"x":{}}"#);
        assert!(template.names_the_key());
        assert!(!Template::new("/count").names_the_key());
    }

    #[test]
    fn a_header_is_a_name_and_a_value_with_placeholders() {
        let header: HeaderTemplate = "X-Reference:  order-{n}".parse().unwrap();

        assert_eq!(header.name, "x-reference");
        assert_eq!(header.value(&NumberedKey { number: 3, key: String::new() }), "order-3");
    }

    #[test]
    fn what_is_no_header_is_refused_by_value() {
        let refusal = |text: &str| text.parse::<HeaderTemplate>().unwrap_err();

        assert!(refusal("no colon").contains("Name: value"));
        assert!(refusal("sp ace: x").contains("\"sp ace\""));
        assert!(refusal("X-A: line\nbreak").contains("x-a"));
        assert!(refusal("Content-Length: 5").contains("content-length"));
    }
}
