//! The client's key.

use std::fmt;

// === types ===

/// The client's `Idempotency-Key`: 1 to 255 visible ASCII bytes, compared byte for byte.
///
/// The structured-field form `"abc"` (draft-ietf-httpapi-idempotency-key-header-07, RFC 9651) and
/// the bare form `abc`, which most clients send, are the same key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey(Box<str>);

/// How the client spelled its key; a takeover forwards the spelling of the first request.
///
/// A structured-field string has exactly one serialisation, so this is all that must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeySpelling {
    /// `abc`
    #[default]
    Bare,
    /// `"abc"`
    Quoted,
}

/// Why a header value is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing between the quotes, or no value at all.
    #[error("the key is empty: 1 to 255 visible ASCII characters are allowed")]
    Empty,
    /// More than [`IdempotencyKey::LENGTH_MAX`] bytes.
    #[error("the key has {length} bytes: 1 to 255 visible ASCII characters are allowed")]
    TooLong {
        /// Bytes found.
        length: usize,
    },
    /// A control character, a space, or a byte outside ASCII.
    #[error("the key has byte 0x{byte:02x} at position {position}: visible ASCII (0x21 to 0x7e) is allowed")]
    NotVisibleAscii {
        /// The offending byte.
        byte: u8,
        /// Its offset in the value.
        position: usize,
    },
    /// `,` outside of quotes (two header lines joined by a proxy look like this), or `"` in a bare key.
    #[error("the key has a bare {found:?}: send one key, and quote it if it contains that character")]
    Joined {
        /// `,` or `"`.
        found: char,
    },
    /// A quoted key without its closing quote, or with an escape other than `\"` and `\\`.
    #[error("the quoted key is not a structured-field string (RFC 9651 section 3.3.3)")]
    Quoting,
    /// Something follows the closing quote.
    #[error("the quoted key is followed by parameters or text: nothing may follow the closing quote")]
    Trailing,
}

// === impl IdempotencyKey ===

impl IdempotencyKey {
    /// The longest key, in bytes. Stripe's limit; longer ones broke database indexes elsewhere.
    pub const LENGTH_MAX: usize = 255;

    /// Takes a key as it is, without the header's syntax: from a body member, or from a store.
    ///
    /// # Errors
    /// When it is empty, too long, or not visible ASCII.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        check_length(text.len())?;
        check_visible(text.as_bytes())?;
        Ok(Self(text.into()))
    }

    /// Reads one header field value: quoted or bare. White space around it does not count.
    ///
    /// # Errors
    /// See [`KeyError`]; nothing that is refused may be forwarded.
    pub fn parse(value: &[u8]) -> Result<(Self, KeySpelling), KeyError> {
        let value = value.trim_ascii();
        match value.split_first() {
            None => Err(KeyError::Empty),
            Some((b'"', rest)) => Ok((Self::new(&unquote(rest)?)?, KeySpelling::Quoted)),
            Some(_) => Ok((parse_bare(value)?, KeySpelling::Bare)),
        }
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The header value that spells this key.
    #[must_use]
    pub fn to_header(&self, spelling: KeySpelling) -> String {
        match spelling {
            KeySpelling::Bare => self.0.to_string(),
            KeySpelling::Quoted => {
                let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{escaped}\"")
            }
        }
    }
}

impl fmt::Debug for IdempotencyKey {
    /// Keys are not logged in clear.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({} bytes)", self.0.len())
    }
}

fn parse_bare(value: &[u8]) -> Result<IdempotencyKey, KeyError> {
    check_length(value.len())?;
    // Proxies join lines by a comma and a space: the comma tells more than the space behind it.
    let offending = value.iter().find(|byte| !matches!(byte, 0x21..=0x7e) || matches!(byte, b',' | b'"'));
    if let Some(&found @ (b',' | b'"')) = offending {
        return Err(KeyError::Joined { found: char::from(found) });
    }
    check_visible(value)?;
    let text = std::str::from_utf8(value).expect("visible ASCII, checked above");
    Ok(IdempotencyKey(text.into()))
}

/// Decodes the rest of a structured-field string, after its opening quote.
fn unquote(rest: &[u8]) -> Result<String, KeyError> {
    let mut text = String::with_capacity(rest.len());
    let mut bytes = rest.iter().copied().enumerate();
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'"' if position + 1 == rest.len() => return Ok(text),
            b'"' if rest[position + 1..].trim_ascii_start().starts_with(b",") => {
                return Err(KeyError::Joined { found: ',' });
            }
            b'"' => return Err(KeyError::Trailing),
            b'\\' => match bytes.next() {
                Some((_, escaped @ (b'"' | b'\\'))) => text.push(char::from(escaped)),
                Some(_) | None => return Err(KeyError::Quoting),
            },
            0x21..=0x7e => text.push(char::from(byte)),
            byte => return Err(KeyError::NotVisibleAscii { byte, position: position + 1 }),
        }
    }
    Err(KeyError::Quoting)
}

fn check_length(length: usize) -> Result<(), KeyError> {
    match length {
        0 => Err(KeyError::Empty),
        1..=IdempotencyKey::LENGTH_MAX => Ok(()),
        length => Err(KeyError::TooLong { length }),
    }
}

fn check_visible(value: &[u8]) -> Result<(), KeyError> {
    let offending = value.iter().enumerate().find(|(_, byte)| !matches!(byte, 0x21..=0x7e));
    match offending {
        None => Ok(()),
        Some((position, &byte)) => Err(KeyError::NotVisibleAscii { byte, position }),
    }
}

// === impl KeySpelling ===

impl KeySpelling {
    /// The word that stores use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Quoted => "quoted",
        }
    }

    /// Reads such a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Bare, Self::Quoted].into_iter().find(|spelling| spelling.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Result<String, KeyError> {
        IdempotencyKey::parse(value.as_bytes()).map(|(key, _)| key.as_str().to_owned())
    }

    #[test]
    fn quoted_and_bare_are_the_same_key() {
        let (quoted, quoted_spelling) = IdempotencyKey::parse(br#""8e03978e-40d5""#).unwrap();
        let (bare, bare_spelling) = IdempotencyKey::parse(b" 8e03978e-40d5 ").unwrap();
        assert_eq!(quoted, bare);
        assert_eq!((quoted_spelling, bare_spelling), (KeySpelling::Quoted, KeySpelling::Bare));
    }

    #[test]
    fn spelling_survives_a_round_trip() {
        for value in [r#""a\"b""#, r#""a\\b""#, "plain", r#""a,b""#, "../../x", "a:b:c", "%00"] {
            let (key, spelling) = IdempotencyKey::parse(value.as_bytes()).unwrap();
            assert_eq!(key.to_header(spelling), value);
        }
    }

    #[test]
    fn length_is_limited_on_both_sides() {
        assert_eq!(parse(""), Err(KeyError::Empty));
        assert_eq!(parse("  "), Err(KeyError::Empty));
        assert_eq!(parse(r#""""#), Err(KeyError::Empty));
        assert!(parse(&"k".repeat(255)).is_ok());
        assert!(parse(&format!("\"{}\"", "\\\\".repeat(255))).is_ok(), "255 decoded bytes");
        assert_eq!(parse(&"k".repeat(256)), Err(KeyError::TooLong { length: 256 }));
        assert_eq!(parse(&format!("\"{}\"", "k".repeat(256))), Err(KeyError::TooLong { length: 256 }));
    }

    #[test]
    fn joined_lines_are_refused() {
        for joined in ["K1, K1", "K1,K1", r#""K1","K1""#, r#""K1", "K1""#] {
            assert_eq!(parse(joined), Err(KeyError::Joined { found: ',' }), "{joined}");
        }
        assert_eq!(parse(r#"K"1"#), Err(KeyError::Joined { found: '"' }));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(matches!(parse("caf\u{e9}"), Err(KeyError::NotVisibleAscii { byte: 0xc3, .. })));
        assert!(matches!(parse("a\tb"), Err(KeyError::NotVisibleAscii { byte: b'\t', position: 1 })));
        assert!(matches!(parse("\"a b\""), Err(KeyError::NotVisibleAscii { byte: b' ', position: 2 })));
        assert!(matches!(parse("a\0"), Err(KeyError::NotVisibleAscii { byte: 0, .. })));
        assert!(matches!(IdempotencyKey::parse(b"caf\xe9"), Err(KeyError::NotVisibleAscii { byte: 0xe9, .. })));
    }

    #[test]
    fn broken_quoting_is_refused() {
        assert_eq!(parse(r#""unterminated"#), Err(KeyError::Quoting));
        assert_eq!(parse(r#""a\x""#), Err(KeyError::Quoting));
        assert_eq!(parse(r#""x\"#), Err(KeyError::Quoting));
        assert_eq!(parse(r#""x";p=1"#), Err(KeyError::Trailing));
    }
}
