//! SHA-256 over length-prefixed fields: no value can imitate another field.

use sha2::{Digest, Sha256};

/// Hashes each field behind its length (four bytes, big endian).
pub(crate) fn length_prefixed(fields: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for field in fields {
        let length = u32::try_from(field.len()).expect("fields are limited far below 4 GiB");
        hasher.update(length.to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}
