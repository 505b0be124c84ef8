//! Paths as they are matched and compared.

use std::borrow::Cow;

// === types ===

/// A path with placeholders: `/api/payments`, `/orders/*/pay` (`*` is one segment), `/hooks/**`
/// (`**` is the rest, possibly nothing).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

/// Not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern {pattern:?} {fault}")]
pub struct PatternError {
    pattern: String,
    fault: &'static str,
}

// === impl Pattern ===

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it does not begin with `/`, has `**` before its end, or a `*` beside other characters.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let refuse = |fault| Err(PatternError { pattern: pattern.to_owned(), fault });
        let Some(relative) = pattern.strip_prefix('/') else { return refuse("must begin with \"/\"") };
        let segments: Vec<_> = relative.split('/').collect();
        let (_, before_last) = segments.split_last().expect("split yields at least one segment");
        if before_last.contains(&"**") {
            return refuse("has \"**\" before its last segment: it stands for the whole rest of a path");
        }
        if segments.iter().any(|segment| segment.contains('*') && !matches!(*segment, "*" | "**")) {
            return refuse("has \"*\" beside other characters: it stands for one whole segment");
        }
        Ok(Self(normalised(pattern).into()))
    }

    /// Whether a normalised path matches.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        for expected in self.0.split('/') {
            match (expected, segments.next()) {
                ("**", _) => return true,
                ("*", Some(segment)) if !segment.is_empty() => {}
                (expected, Some(segment)) if expected == segment => {}
                (_, Some(_) | None) => return false,
            }
        }
        segments.next().is_none()
    }

    /// The pattern's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The path with dot segments removed (RFC 3986 section 5.2.4), unreserved characters decoded and
/// the remaining escapes in upper case (section 6.2.2), so that two spellings of one path are one.
#[must_use]
pub fn normalised(path: &str) -> Cow<'_, str> {
    let is_plain = !path.contains('%') && !path.contains("/.");
    if is_plain {
        return Cow::Borrowed(path);
    }
    Cow::Owned(without_dot_segments(&decoded_unreserved(path)))
}

fn decoded_unreserved(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        match rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => decoded.push(char::from(byte)),
            Some(byte) => decoded.push_str(&format!("%{byte:02X}")),
            None => {
                decoded.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    decoded.push_str(rest);
    decoded
}

fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_are_one() {
        for (path, expected) in [
            ("/a/b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/x/../b", "/a/b"),
            ("/../a", "/a"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/%61pi/%7euser", "/api/~user"),
            ("/a%2fb", "/a%2Fb"),
            ("/a/%2e%2e/b", "/b"),
            ("/100%", "/100%"),
            ("/%zz%41", "/%zzA"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a//b", "/a//b"),
            ("*", "*"),
        ] {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }

    #[test]
    fn patterns_match_whole_segments() {
        let matches = |pattern: &str, path: &str| Pattern::parse(pattern).unwrap().matches(path);
        assert!(matches("/api/payments", "/api/payments"));
        assert!(!matches("/api/payments", "/api/payments/1"));
        assert!(!matches("/api/payments", "/api/payments/"));
        assert!(matches("/orders/*/pay", "/orders/1/pay"));
        assert!(!matches("/orders/*/pay", "/orders//pay"));
        assert!(!matches("/orders/*", "/orders/1/2"));
        assert!(matches("/hooks/**", "/hooks/a/b"));
        assert!(matches("/hooks/**", "/hooks/"));
        assert!(!matches("/hooks/**", "/hookshot"));
        assert!(matches("/**", "/"));
    }

    #[test]
    fn ambiguous_patterns_are_refused() {
        for pattern in ["api", "", "/a/**/b", "/a*b", "/a/***"] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
