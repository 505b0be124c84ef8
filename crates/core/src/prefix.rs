//! Records named by their first digits.

use std::fmt;

use crate::RecordDigest;

/// The first hexadecimal digits of a record digest: what people type who read it in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPrefix {
    first: RecordDigest,
    last: RecordDigest,
    digits: usize,
}

impl RecordPrefix {
    /// Fewer digits would often name several records; logs show as many.
    pub const DIGITS_MIN: usize = 8;
    const DIGITS_MAX: usize = 32;

    /// Reads 8 to 32 hexadecimal digits; the hyphens of a UUID are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hexadecimal || !(Self::DIGITS_MIN..=Self::DIGITS_MAX).contains(&digits.len()) {
            return None;
        }
        let width = Self::DIGITS_MAX;
        let first = RecordDigest::parse(&format!("{digits:0<width$}"))?;
        let last = RecordDigest::parse(&format!("{digits:f<width$}"))?;
        Some(Self { first, last, digits: digits.len() })
    }

    /// The least digest that begins so.
    #[must_use]
    pub fn first(&self) -> RecordDigest {
        self.first
    }

    /// The greatest digest that begins so.
    #[must_use]
    pub fn last(&self) -> RecordDigest {
        self.last
    }

    /// Whether the digest begins so.
    #[must_use]
    pub fn contains(&self, record: RecordDigest) -> bool {
        (self.first..=self.last).contains(&record)
    }
}

impl From<RecordDigest> for RecordPrefix {
    fn from(record: RecordDigest) -> Self {
        Self { first: record, last: record, digits: Self::DIGITS_MAX }
    }
}

impl fmt::Display for RecordPrefix {
    /// The digits, without hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.first.to_string().chars().filter(|c| *c != '-').take(self.digits).collect();
        f.write_str(&digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_exactly_the_digests_that_begin_so() {
        let digest = |text| RecordDigest::parse(text).unwrap();
        let prefix = RecordPrefix::parse("9f86d081-8").unwrap();
        assert!(prefix.contains(digest("9f86d081-8000-0000-0000-000000000000")));
        assert!(prefix.contains(digest("9F86D081-8fff-ffff-ffff-ffffffffffff")));
        assert!(!prefix.contains(digest("9f86d081-7fff-ffff-ffff-ffffffffffff")));
        assert!(!prefix.contains(digest("9f86d081-9000-0000-0000-000000000000")));
        assert_eq!(prefix.to_string(), "9f86d0818");
    }

    #[test]
    fn a_whole_digest_holds_itself_alone() {
        let digest = RecordDigest::from_bytes([7; 16]);
        let prefix = RecordPrefix::parse(&digest.to_string()).unwrap();
        assert_eq!(prefix, RecordPrefix::from(digest));
        assert_eq!((prefix.first(), prefix.last()), (digest, digest));
    }

    #[test]
    fn what_is_too_short_too_long_or_no_number_is_no_prefix() {
        for text in ["", "9f86d08", "9f86d08-", "9f86d08g", "k1", &"0".repeat(33)] {
            assert_eq!(RecordPrefix::parse(text), None, "{text}");
        }
    }
}
