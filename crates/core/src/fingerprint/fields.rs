//! Hashing fields behind their lengths, so that no field can imitate another.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// SHA-256, or HMAC-SHA-256 under a secret, over fields; each behind its length (four bytes, big endian).
pub(super) enum FieldHasher {
    /// Anyone can compute it.
    Plain(Sha256),
    /// Only who knows the secret can.
    Keyed(Hmac<Sha256>),
}

impl FieldHasher {
    pub(super) fn plain() -> Self {
        Self::Plain(Sha256::new())
    }

    pub(super) fn field(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("request heads and configuration are far below 4 GiB");
        self.update(&length.to_be_bytes());
        self.update(bytes);
    }

    pub(super) fn finish(self) -> [u8; 32] {
        match self {
            Self::Plain(hasher) => hasher.finalize().into(),
            Self::Keyed(mac) => mac.finalize().into_bytes().into(),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(hasher) => hasher.update(bytes),
            Self::Keyed(mac) => mac.update(bytes),
        }
    }
}
