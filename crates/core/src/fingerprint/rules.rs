//! How a route computes fingerprints.

use std::{fmt, sync::Arc};

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

use super::{
    fields::FieldHasher,
    pointer::{JsonPointer, PointerTree},
};

// === types ===

/// How a route computes fingerprints. A digest of the rules goes into each of them, so that
/// fingerprints made under different rules are recognised as incomparable. Cheap to clone.
#[derive(Clone)]
pub struct Rules {
    digest: [u8; Rules::DIGEST_LENGTH],
    mode: Mode,
    ignore: Option<Arc<PointerTree>>,
    mac: Option<Arc<Hmac<Sha256>>>,
    decoded_bytes_max: u64,
}

/// What [`Rules`] are made of.
#[derive(Debug, Clone)]
pub struct RulesOptions {
    /// What is compared; by meaning unless said otherwise.
    pub mode: Mode,
    /// Places of a JSON body that may differ between retries, such as a client's time stamp: the
    /// members and array elements there do not count. Nothing unless said otherwise.
    pub ignore: Vec<JsonPointer>,
    /// Makes fingerprints unguessable for whoever can read them; none unless said otherwise.
    pub secret: Option<Secret>,
    /// How many bytes a compressed body may decode to; [`Rules::DECODED_BYTES_MAX`] unless said
    /// otherwise. It decides what is refused, never what a fingerprint is.
    pub decoded_bytes_max: u64,
}

/// What of a body is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// JSON by meaning, multipart by its parts, both without gzip; other bodies byte by byte.
    #[default]
    Meaning,
    /// The bytes as they were sent.
    Bytes,
}

/// An HMAC-SHA-256 key with a name. Only the name enters the rules digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    id: Box<str>,
    key: Box<[u8]>,
}

/// Why options do not make [`Rules`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The empty pointer is on the ignore list.
    #[error("the ignore list has the empty JSON pointer, which names the whole body: all requests would be the same")]
    IgnoresWholeBody,
    /// More than [`Rules::POINTERS_MAX`] pointers.
    #[error("the ignore list has {count} JSON pointers: at most {} are allowed", Rules::POINTERS_MAX)]
    TooManyPointers {
        /// Pointers found.
        count: usize,
    },
    /// An ignore list beside [`Mode::Bytes`].
    #[error("an ignore list has no effect when bytes are compared: empty it, or compare by meaning")]
    IgnoreWithoutMeaning,
}

/// Why a secret is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The name is empty or longer than [`Secret::ID_LENGTH_MAX`] bytes.
    #[error("secret id of {length} bytes: 1 to {} are allowed", Secret::ID_LENGTH_MAX)]
    IdLength {
        /// Bytes found.
        length: usize,
    },
    /// The key is shorter than [`Secret::KEY_LENGTH_MIN`] bytes.
    #[error("secret key of {length} bytes: at least {} are needed", Secret::KEY_LENGTH_MIN)]
    KeyTooShort {
        /// Bytes found.
        length: usize,
    },
}

// === impl Rules ===

impl Rules {
    /// Bytes of [`Self::digest`].
    pub const DIGEST_LENGTH: usize = 8;
    /// The most pointers on an ignore list: they are compared with each member's name in turn.
    pub const POINTERS_MAX: usize = 64;
    /// The default of [`RulesOptions::decoded_bytes_max`]: 10 MiB, the default limit of a body.
    pub const DECODED_BYTES_MAX: u64 = 10 * 1024 * 1024;
    /// First field of the digest; its number changes with the meaning of the fields.
    const DOMAIN: &'static [u8] = b"oncegate rules 1";

    /// Checks the options and prepares what does not depend on a request.
    ///
    /// # Errors
    /// When the ignore list is too long, names the whole body, or would have no effect.
    pub fn new(options: &RulesOptions) -> Result<Self, RulesError> {
        let count = options.ignore.len();
        if count > Self::POINTERS_MAX {
            return Err(RulesError::TooManyPointers { count });
        }
        if count > 0 && options.mode == Mode::Bytes {
            return Err(RulesError::IgnoreWithoutMeaning);
        }
        if options.ignore.iter().any(JsonPointer::is_whole_document) {
            return Err(RulesError::IgnoresWholeBody);
        }
        Ok(Self {
            digest: rules_digest(options),
            mode: options.mode,
            ignore: (count > 0).then(|| Arc::new(PointerTree::new(&options.ignore))),
            mac: options.secret.as_ref().map(|secret| Arc::new(secret.mac())),
            decoded_bytes_max: options.decoded_bytes_max,
        })
    }

    /// Equal for equal rules: a digest of the mode, the secret's id and the set of ignored pointers.
    #[must_use]
    pub fn digest(&self) -> [u8; Self::DIGEST_LENGTH] {
        self.digest
    }

    /// What is compared.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many bytes a compressed body may decode to.
    #[must_use]
    pub fn decoded_bytes_max(&self) -> u64 {
        self.decoded_bytes_max
    }

    pub(super) fn ignore(&self) -> Option<&Arc<PointerTree>> {
        self.ignore.as_ref()
    }

    pub(super) fn hasher(&self) -> FieldHasher {
        match &self.mac {
            Some(mac) => FieldHasher::Keyed(Hmac::clone(mac)),
            None => FieldHasher::plain(),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::new(&RulesOptions::default()).expect("the default ignore list is empty")
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("digest", &self.digest).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Default for RulesOptions {
    fn default() -> Self {
        Self { mode: Mode::default(), ignore: Vec::new(), secret: None, decoded_bytes_max: Rules::DECODED_BYTES_MAX }
    }
}

fn rules_digest(options: &RulesOptions) -> [u8; Rules::DIGEST_LENGTH] {
    let mut pointers: Vec<&JsonPointer> = options.ignore.iter().collect();
    pointers.sort_unstable();
    pointers.dedup();

    let mut hasher = FieldHasher::plain();
    hasher.field(Rules::DOMAIN);
    hasher.field(options.mode.as_str().as_bytes());
    // A secret's id is never empty, so an empty field is no secret.
    hasher.field(options.secret.as_ref().map_or("", Secret::id).as_bytes());
    pointers.iter().for_each(|pointer| hasher.field(pointer.as_str().as_bytes()));

    let hash = hasher.finish();
    *hash.first_chunk().expect("32 bytes are at least 8")
}

// === impl Mode ===

impl Mode {
    /// The word that configuration and the rules digest use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Meaning => "meaning",
            Self::Bytes => "bytes",
        }
    }
}

// === impl Secret ===

impl Secret {
    /// The longest name, in bytes.
    pub const ID_LENGTH_MAX: usize = 64;
    /// The shortest key, in bytes. 128 bits cannot be searched; a password of a few letters can.
    pub const KEY_LENGTH_MIN: usize = 16;

    /// Names a key. A new key needs a new name: two keys under one name make every repeat look like
    /// another request.
    ///
    /// # Errors
    /// When the name is empty or too long, or the key too short.
    pub fn new(id: &str, key: &[u8]) -> Result<Self, SecretError> {
        if id.is_empty() || id.len() > Self::ID_LENGTH_MAX {
            return Err(SecretError::IdLength { length: id.len() });
        }
        if key.len() < Self::KEY_LENGTH_MIN {
            return Err(SecretError::KeyTooShort { length: key.len() });
        }
        Ok(Self { id: id.into(), key: key.into() })
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.key).expect("HMAC takes a key of any length")
    }
}

impl fmt::Debug for Secret {
    /// Shows the name, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(texts: &[&str]) -> Vec<JsonPointer> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn secret(id: &str) -> Option<Secret> {
        Some(Secret::new(id, b"0123456789abcdef").unwrap())
    }

    fn digest(options: RulesOptions) -> [u8; 8] {
        Rules::new(&options).unwrap().digest()
    }

    #[test]
    fn the_digest_tells_rules_apart() {
        let default = RulesOptions::default;
        let digests = [
            digest(default()),
            digest(RulesOptions { mode: Mode::Bytes, ..default() }),
            digest(RulesOptions { secret: secret("/a"), ..default() }),
            digest(RulesOptions { secret: secret("/b"), ..default() }),
            digest(RulesOptions { ignore: pointers(&["/a"]), ..default() }),
            digest(RulesOptions { ignore: pointers(&["/a/b"]), ..default() }),
            digest(RulesOptions { ignore: pointers(&["/a", "/b"]), ..default() }),
        ];
        for (position, digest) in digests.iter().enumerate() {
            assert!(!digests[..position].contains(digest), "{position}");
        }
    }

    #[test]
    fn the_digest_is_of_a_set_of_pointers_and_not_of_the_limit() {
        let one = RulesOptions { ignore: pointers(&["/a", "/b"]), ..RulesOptions::default() };
        let other =
            RulesOptions { ignore: pointers(&["/b", "/a", "/b"]), decoded_bytes_max: 1, ..RulesOptions::default() };
        assert_eq!(digest(one), digest(other));
    }

    #[test]
    fn the_digest_knows_the_secrets_id_and_not_its_key() {
        let other_key = Some(Secret::new("2026-01", b"another key of 24 bytes!").unwrap());
        let one = digest(RulesOptions { secret: secret("2026-01"), ..RulesOptions::default() });
        assert_eq!(one, digest(RulesOptions { secret: other_key, ..RulesOptions::default() }));
    }

    #[test]
    fn senseless_ignore_lists_are_refused() {
        let refused = |mode, texts: &[&str]| {
            let options = RulesOptions { mode, ignore: pointers(texts), ..RulesOptions::default() };
            Rules::new(&options).unwrap_err()
        };
        assert_eq!(refused(Mode::Meaning, &["/a", ""]), RulesError::IgnoresWholeBody);
        assert_eq!(refused(Mode::Bytes, &["/a"]), RulesError::IgnoreWithoutMeaning);
        assert_eq!(refused(Mode::Meaning, &["/a"; 65]), RulesError::TooManyPointers { count: 65 });
    }

    #[test]
    fn secrets_have_a_name_and_a_long_enough_key_and_are_not_shown() {
        assert_eq!(Secret::new("", &[0; 16]), Err(SecretError::IdLength { length: 0 }));
        assert_eq!(Secret::new(&"i".repeat(65), &[0; 16]), Err(SecretError::IdLength { length: 65 }));
        assert_eq!(Secret::new("i", &[0; 15]), Err(SecretError::KeyTooShort { length: 15 }));
        let options = RulesOptions { secret: secret("2026-01"), ..RulesOptions::default() };
        assert!(!format!("{options:?} {:?}", Rules::new(&options)).contains("0123"));
    }
}
