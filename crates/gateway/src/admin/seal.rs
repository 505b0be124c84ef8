//! What only this listener can have written.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// HMAC-SHA-256 of a text, in hexadecimal.
pub(super) fn seal(key: &[u8], text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        hex
    })
}

/// Whether what somebody showed is ours. Takes the same time wherever the two differ.
pub(super) fn is_same(shown: &str, ours: &str) -> bool {
    shown.as_bytes().ct_eq(ours.as_bytes()).into()
}
