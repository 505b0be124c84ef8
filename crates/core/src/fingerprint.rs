//! What must not differ between two requests with one key.
//!
//! `docs/fingerprint.md` defines the bytes, so that other languages can compute the same.

use std::fmt;

mod compute;
mod content;
mod fields;
mod gzip;
mod json;
mod media_type;
mod multipart;
mod pointer;
mod query;
mod rules;

pub use self::{
    compute::{DecodedTooLarge, Fingerprinter, RequestHead},
    pointer::{JsonPointer, JsonPointerError},
    rules::{Mode, Rules, RulesError, RulesOptions, Secret, SecretError},
};

// === types ===

/// Versioned digest of what must not differ between retries of one request.
///
/// The layout that oncegate writes is [`Fingerprint::STRUCTURED_LENGTH`] bytes: one version byte,
/// eight bytes of the digest of the rules that it was made under, 32 bytes of hash. Callers of the
/// SQL functions may bring any 1..=64 bytes of their own; those are opaque and compare byte by byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    length: u8,
    bytes: [u8; Self::LENGTH_MAX],
}

/// How a repeat's fingerprint relates to the record's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same request.
    Same,
    /// Another request: the answer is a mismatch.
    Different,
    /// Made under other rules: nobody can tell, so the repeat is neither replayed nor executed.
    Incomparable,
}

/// A fingerprint's bytes were empty or longer than [`Fingerprint::LENGTH_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fingerprint of {length} bytes: 1 to {} bytes are allowed", Fingerprint::LENGTH_MAX)]
pub struct FingerprintLengthError {
    length: usize,
}

// === impl Fingerprint ===

impl Fingerprint {
    /// The most bytes that a fingerprint may have.
    pub const LENGTH_MAX: usize = 64;
    /// Version byte, rules digest, hash.
    pub const STRUCTURED_LENGTH: usize = 1 + 8 + 32;
    /// What two structured fingerprints must share before their hashes mean anything to each other.
    const RULES_LENGTH: usize = 1 + 8;

    /// Takes the bytes as a caller or a store has them.
    ///
    /// # Errors
    /// When there are none, or more than [`Self::LENGTH_MAX`].
    pub fn from_bytes(source: &[u8]) -> Result<Self, FingerprintLengthError> {
        if source.is_empty() || source.len() > Self::LENGTH_MAX {
            return Err(FingerprintLengthError { length: source.len() });
        }
        let mut bytes = [0; Self::LENGTH_MAX];
        bytes[..source.len()].copy_from_slice(source);
        let length = u8::try_from(source.len()).expect("at most LENGTH_MAX, checked above");
        Ok(Self { length, bytes })
    }

    /// The bytes as they are stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Compares a repeat's fingerprint with the record's.
    ///
    /// Fingerprints of different versions or rules say nothing about each other, and neither does a
    /// structured one about an opaque one: answering `Same` or `Different` there would replay or
    /// refuse on partial evidence.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self == other {
            return Comparison::Same;
        }
        match (self.rules(), other.rules()) {
            (None, None) => Comparison::Different,
            (Some(mine), Some(theirs)) if mine == theirs => Comparison::Different,
            (Some(_), Some(_) | None) | (None, Some(_)) => Comparison::Incomparable,
        }
    }

    /// Version byte and rules digest, if this is a structured fingerprint.
    #[must_use]
    pub fn rules(&self) -> Option<&[u8]> {
        (self.as_bytes().len() == Self::STRUCTURED_LENGTH).then(|| &self.bytes[..Self::RULES_LENGTH])
    }
}

impl fmt::Debug for Fingerprint {
    /// Shows a few bytes: enough to tell two apart in a log, too few to look a payload up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint(")?;
        let shown = self.as_bytes().iter().rev().take(4).rev();
        shown.into_iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests;
