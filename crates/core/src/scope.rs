//! The space in which a key is unique.

use std::{fmt, fmt::Write as _, sync::Arc};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

// === types ===

/// The space in which a key is unique: who calls and, by choice, on which route.
///
/// Its text is kept beside the record for people. Each part of it is `name=length:value`, or
/// `name#length:digest` where the value is a credential or not short visible ASCII; parts are joined
/// by `;`. The lengths make sure that no value can imitate another scope. A scope without parts is
/// the *anonymous* scope, whose text is empty.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(Arc<str>);

/// Puts a [`Scope`] together from what identifies the caller.
#[derive(Debug, Default, Clone)]
pub struct ScopeBuilder {
    text: String,
    secret: Option<Vec<u8>>,
}

/// A scope's text was too long or not what a store can keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// More than [`Scope::LENGTH_MAX`] bytes.
    #[error("the scope has {length} bytes: at most {} are allowed", Scope::LENGTH_MAX)]
    TooLong {
        /// Bytes found.
        length: usize,
    },
    /// PostgreSQL's `text` cannot hold NUL.
    #[error("the scope contains a NUL character: any other text is allowed")]
    Nul,
}

// === impl Scope ===

impl Scope {
    /// The longest scope text, in bytes; it is stored with each record.
    pub const LENGTH_MAX: usize = 1024;

    /// Takes a scope as a store or a caller of the SQL functions has it.
    ///
    /// # Errors
    /// When it is longer than [`Self::LENGTH_MAX`] or contains NUL.
    pub fn from_text(text: &str) -> Result<Self, ScopeError> {
        if text.len() > Self::LENGTH_MAX {
            return Err(ScopeError::TooLong { length: text.len() });
        }
        if text.contains('\0') {
            return Err(ScopeError::Nul);
        }
        Ok(Self(text.into()))
    }

    /// The scope that all callers without an identity share.
    #[must_use]
    pub fn anonymous() -> Self {
        Self("".into())
    }

    /// Whether this is the scope that all callers without an identity share.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing in it tells who calls: it is the anonymous scope, or says no more than the route.
    #[must_use]
    pub fn names_nobody(&self) -> bool {
        self.is_anonymous() || self.0.starts_with("route=") && !self.0.contains(';')
    }

    /// The text that is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Scope {
    /// Scopes may name a caller; logs show how long they are and no more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} bytes)", self.0.len())
    }
}

// === impl ScopeBuilder ===

impl ScopeBuilder {
    /// Longer values are kept as a digest.
    const VALUE_LENGTH_MAX: usize = 128;

    /// A scope without parts. With a secret, digests are HMAC-SHA-256 under it, so that a leaked
    /// table cannot be searched for known credentials; without one they are SHA-256.
    #[must_use]
    pub fn new(secret: Option<&[u8]>) -> Self {
        Self { text: String::new(), secret: secret.map(<[u8]>::to_vec) }
    }

    /// Adds a value that people may read, such as a tenant's name.
    #[must_use]
    pub fn with_value(self, name: &str, value: &[u8]) -> Self {
        let is_short = value.len() <= Self::VALUE_LENGTH_MAX;
        match std::str::from_utf8(value) {
            Ok(text) if is_short && value.iter().all(|byte| matches!(byte, 0x20..=0x7e)) => {
                self.with_part(name, '=', text)
            }
            Ok(_) | Err(_) => self.with_credential(name, value),
        }
    }

    /// Adds a value that must not be readable, such as `Authorization`, as the first 128 bits of
    /// its digest in hexadecimal.
    #[must_use]
    pub fn with_credential(self, name: &str, value: &[u8]) -> Self {
        let digest: [u8; 32] = match &self.secret {
            Some(secret) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
                mac.update(value);
                mac.finalize().into_bytes().into()
            }
            None => Sha256::digest(value).into(),
        };
        let mut hex = String::with_capacity(32);
        for byte in &digest[..16] {
            write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        }
        self.with_part(name, '#', &hex)
    }

    /// The scope of the parts so far.
    ///
    /// # Errors
    /// When the parts together are longer than [`Scope::LENGTH_MAX`].
    pub fn build(self) -> Result<Scope, ScopeError> {
        Scope::from_text(&self.text)
    }

    fn with_part(mut self, name: &str, kind: char, value: &str) -> Self {
        if !self.text.is_empty() {
            self.text.push(';');
        }
        write!(self.text, "{name}{kind}{}:{value}", value.len()).expect("writing to a string cannot fail");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(parts: &[(&str, &str)]) -> Scope {
        let builder = ScopeBuilder::new(None);
        let add = |builder: ScopeBuilder, (name, value): &(&str, &str)| builder.with_value(name, value.as_bytes());
        parts.iter().fold(builder, add).build().unwrap()
    }

    #[test]
    fn text_is_readable_and_credentials_are_not() {
        let builder =
            ScopeBuilder::new(None).with_value("x-org", b"acme").with_credential("authorization", b"Bearer A");
        let scope = builder.build().unwrap();
        assert_eq!(scope.as_str(), "x-org=4:acme;authorization#32:98114cdd5c702d7a5efbd07968971454");
        assert!(!format!("{scope:?}").contains("acme"));
    }

    #[test]
    fn no_value_imitates_another_scope() {
        let honest = scope(&[("x-org", "acme"), ("x-user", "1")]);
        let forged = scope(&[("x-org", "acme;x-user=1:1")]);
        assert_ne!(honest, forged);
        let digest = ScopeBuilder::new(None).with_credential("a", b"v").build().unwrap();
        let imitation = scope(&[("a", digest.as_str())]);
        assert_ne!(digest, imitation);
    }

    #[test]
    fn a_secret_changes_the_digest() {
        let plain = ScopeBuilder::new(None).with_credential("authorization", b"Bearer A").build().unwrap();
        let keyed = ScopeBuilder::new(Some(b"s")).with_credential("authorization", b"Bearer A").build().unwrap();
        assert_ne!(plain, keyed);
    }

    #[test]
    fn values_that_people_cannot_read_become_digests() {
        for value in [&b"caf\xe9"[..], &[b'v'; 129], b"a\tb", "ключ".as_bytes()] {
            let scope = ScopeBuilder::new(None).with_value("x", value).build().unwrap();
            assert!(scope.as_str().starts_with("x#32:"), "{}", scope.as_str());
        }
    }

    #[test]
    fn anonymous_has_no_parts() {
        assert!(ScopeBuilder::new(None).build().unwrap().is_anonymous());
        assert!(!scope(&[("x", "")]).is_anonymous(), "a present but empty value is a part");
        assert!(Scope::anonymous().names_nobody() && scope(&[("route", "pay")]).names_nobody());
        assert!(!scope(&[("route", "pay"), ("x", "")]).names_nobody() && !scope(&[("x", "1")]).names_nobody());
        assert_eq!(Scope::from_text("a\0"), Err(ScopeError::Nul));
        assert_eq!(Scope::from_text(&"a".repeat(1025)), Err(ScopeError::TooLong { length: 1025 }));
    }
}
