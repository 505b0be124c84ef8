//! The admin listener's secret.

use std::fmt;

/// What callers of the admin listener must show. Never printed.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A secret that was read.
    pub(crate) fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Whether a caller showed the token. Takes the same time wherever the two differ.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_bytes(), shown).into()
    }

    /// The secret itself, to seal with.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
