//! One string or number of a JSON body, found in one pass that keeps nothing else of it.

use std::{fmt, io};

use oncegate_core::fingerprint::JsonPointer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The text of the string or number at this place, if the body is JSON and has one there. Of members of one name the last
/// counts, as most parsers have it.
pub(super) fn text_at(body: impl io::Read, pointer: &JsonPointer) -> Option<String> {
    let steps: Vec<_> = pointer.steps().collect();
    let mut reader = serde_json::Deserializer::from_reader(io::BufReader::new(body));
    let found = At(&steps).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    found
}

/// The rest of the way.
struct At<'a, S>(&'a [S]);

// === impl At ===

impl<S: AsRef<str>> At<'_, S> {
    fn here<E>(&self, text: impl FnOnce() -> String) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(text))
    }
}

impl<'de, S: AsRef<str>> DeserializeSeed<'de> for At<'_, S> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: AsRef<str>> Visitor<'de> for At<'_, S> {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
        self.here(|| text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<String>, E> {
        self.here(|| number.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<String>, E> {
        self.here(|| number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Option<String>, E> {
        self.here(|| serde_json::Value::from(number).to_string())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<String>, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            match self.0.split_first() {
                Some((step, rest)) if step.as_ref() == name => found = members.next_value_seed(At(rest))?,
                Some(_) | None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Option<String>, A::Error> {
        let mut found = None;
        if let Some((step, rest)) = self.0.split_first()
            && let Some(index) = JsonPointer::index(step.as_ref())
        {
            for _ in 0..index {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            found = elements.next_element_seed(At(rest))?.flatten();
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(body: &str, pointer: &str) -> Option<String> {
        text_at(body.as_bytes(), &JsonPointer::parse(pointer).unwrap())
    }

    #[test]
    fn strings_and_numbers_are_found_where_the_pointer_says() {
        let body = r#"{"id":"evt_1","n":-7,"f":1.50,"big":18446744073709551615,"data":{"object":{"id":"in"}},
                       "list":[{"id":"first"},{"id":"second"}],"a/b":{"~":"odd"},"nothing":null,"yes":true}"#;
        for (pointer, found) in [
            ("/id", Some("evt_1")),
            ("/n", Some("-7")),
            ("/f", Some("1.5")),
            ("/big", Some("18446744073709551615")),
            ("/data/object/id", Some("in")),
            ("/list/1/id", Some("second")),
            ("/list/01/id", None),
            ("/list/2/id", None),
            ("/list/-/id", None),
            ("/a~1b/~0", Some("odd")),
            ("/nothing", None),
            ("/yes", None),
            ("/data", None),
            ("/list", None),
            ("/id/deeper", None),
            ("/missing", None),
        ] {
            assert_eq!(at(body, pointer).as_deref(), found, "{pointer}");
        }
        assert_eq!(at(r#""whole""#, "").as_deref(), Some("whole"));
        assert_eq!(at(r#"{"id":1,"id":2}"#, "/id").as_deref(), Some("2"));
    }

    #[test]
    fn what_is_no_json_has_nothing() {
        for body in ["", "not json", r#"{"id":"a""#, r#"{"id":"a"} more"#, r#"{"id":"a",}"#] {
            assert_eq!(at(body, "/id"), None, "{body:?}");
        }
    }

    #[test]
    fn however_deep_and_long_the_rest_is() {
        let deep = format!(r#"{{"deep":{}{},"id":"a"}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(at(&deep, "/id").as_deref(), Some("a"));
        let long = format!(r#"{{"long":[{}0],"id":"a"}}"#, "0,".repeat(1_000_000));
        assert_eq!(at(&long, "/id").as_deref(), Some("a"));
    }
}
