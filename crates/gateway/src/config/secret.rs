//! Secrets: written in place or read from files, never shown.

use std::{fmt, fs, sync::Arc};

use http::HeaderValue;
use oncegate_core::fingerprint::Secret;

use super::{
    kind::{Kind, Masked, TextOf},
    origin::{Fault, Origin, Sourced},
    section::Section,
};

// === types ===

/// The keys of fingerprints and of the digests in scopes.
#[derive(Debug, Default)]
pub(super) struct Secrets(Vec<Named>);

struct Named {
    secret: Secret,
    id_origin: Origin,
    key: Arc<[u8]>,
}

// === the kinds ===

pub(super) const FILE: TextOf<String> = TextOf { read: file_name, show: String::clone };
const ID: TextOf<String> = TextOf { read: secret_id, show: String::clone };
const KEY: Masked = Masked { min: Secret::KEY_LENGTH_MIN };

/// A secret file has one short line; this is room for a very long one.
const FILE_BYTES_MAX: u64 = 64 * 1024;

fn file_name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the name of the file is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn secret_id(text: &str) -> Result<String, String> {
    let max = Secret::ID_LENGTH_MAX;
    if text.is_empty() || text.len() > max {
        return Err(format!("the id has {} bytes: 1 to {max} are allowed", text.len()));
    }
    Ok(text.to_owned())
}

// === reading ===

/// Reads a secret that is written as `name`, or stands in a file that `name_file` names. The later
/// of file, variable, flag wins; both in one place is a fault.
pub(super) fn read<K: Kind>(
    section: &mut Section,
    names: [&'static str; 2],
    kind: &K,
    check: impl FnOnce(&str) -> Result<K::Value, String>,
) -> Option<Sourced<K::Value>> {
    let [name, name_file] = names;
    let in_place = section.get_optional(name, kind);
    let in_file = section.get_optional(name_file, &FILE);
    match (in_place, in_file) {
        (in_place, None) => in_place,
        (Some(in_place), Some(in_file)) if in_place.origin.rank() > in_file.origin.rank() => Some(in_place),
        (Some(in_place), Some(in_file)) if in_place.origin.rank() == in_file.origin.rank() => {
            section.fault(&in_file.origin, format!("both {name} and {name_file} are set: keep one"));
            Some(in_place)
        }
        (_, Some(file)) => match content(&file.value).and_then(|secret| check(&secret)) {
            Ok(value) => Some(Sourced { value, origin: file.origin }),
            Err(error) => {
                section.fault(&file.origin, format!("{name_file} {:?}: {error}", file.value));
                None
            }
        },
    }
}

/// The file's text without the line break at its end, which editors and `echo` add.
fn content(file: &str) -> Result<String, String> {
    let length = fs::metadata(file).map_err(|error| format!("cannot be read: {error}"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("has {length} bytes: at most {FILE_BYTES_MAX} are allowed"));
    }
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let line = text.strip_suffix('\n').map_or(&*text, |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.to_owned())
}

// === impl Secrets ===

impl Secrets {
    /// Each is one more fingerprint for a repeat that was recorded under another.
    const MAX: usize = 8;

    /// Reads the members of `[[secrets]]`, the newest first.
    pub(super) fn read(sections: &mut [Section]) -> Self {
        let mut secrets: Vec<Named> = Vec::new();
        if let Some(beyond) = sections.get_mut(Self::MAX) {
            let origin = beyond.origin().clone();
            beyond.fault(&origin, format!("more than {} [[secrets]]: remove one, but not the last", Self::MAX));
        }
        for section in sections {
            let id = section.get_required("id", &ID, r#"name the secret, such as id = "2026-11""#);
            let key = read(section, ["value", "value_file"], &KEY, |secret| KEY.checked(secret));
            if key.is_none() && !section.has_faults() {
                let origin = section.origin().clone();
                section.fault(&origin, "[[secrets]] has neither value nor value_file: give one");
            }
            let (Some(id), Some(key)) = (id, key) else { continue };
            if secrets.iter().any(|named| named.secret.id() == id.value) {
                section.fault(&id.origin, format!("id {:?} stands twice: a new secret needs a new id", id.value));
                continue;
            }
            match Secret::new(&id.value, key.value.as_bytes()) {
                Ok(secret) => secrets.push(Named { secret, id_origin: id.origin, key: key.value.as_bytes().into() }),
                Err(error) => section.fault(&key.origin, error.to_string()),
            }
        }
        Self(secrets)
    }

    /// What fingerprints are made with; the last of these makes the new ones.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter().rev().map(|named| &named.secret)
    }

    /// Secrets that have another value than the secrets of the same id in `running`. Only the id enters the rules
    /// digest, so fingerprints under both would be compared as if they were made with one key.
    pub(super) fn changed_values(&self, running: &Self) -> Vec<Fault> {
        let is_changed = |named: &&Named| {
            let mut of_the_same_id = running.0.iter().filter(|before| before.secret.id() == named.secret.id());
            of_the_same_id.any(|before| before.key != named.key)
        };
        let fault = |named: &Named| {
            let text = format!("id {:?} has another value than before: a new secret needs a new id", named.secret.id());
            Fault::new(&named.id_origin, text)
        };
        self.0.iter().filter(is_changed).map(fault).collect()
    }

    /// What credentials in scopes are digested with: the last, so that a new secret in front of it
    /// does not make every caller another one, and thereby every key new.
    pub(super) fn scope(&self) -> Option<Arc<[u8]>> {
        self.0.last().map(|named| Arc::clone(&named.key))
    }
}

// === impl Named ===

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Named").field(&self.secret.id()).finish()
    }
}

// === what others must show, or are shown ===

/// The least bytes of what is compared as it is: 128 bits in hexadecimal.
const SHOWN: Masked = Masked { min: 32 };

/// Reads `token` or `token_file`.
pub(super) fn token(section: &mut Section) -> Option<Sourced<String>> {
    read(section, ["token", "token_file"], &SHOWN, |token| SHOWN.checked(token))
}

/// Reads `upstream_secret` or `upstream_secret_file`.
pub(super) fn upstream(section: &mut Section) -> Option<Sourced<HeaderValue>> {
    let names = ["upstream_secret", "upstream_secret_file"];
    let Sourced { value, origin } = read(section, names, &SHOWN, |secret| SHOWN.checked(secret))?;
    match HeaderValue::from_str(&value) {
        Ok(mut header) if value.is_ascii() => {
            header.set_sensitive(true);
            Some(Sourced { value: header, origin })
        }
        Ok(_) | Err(_) => {
            let text = "the secret is sent in a header, which takes letters, digits and signs of ASCII only";
            section.fault(&origin, format!("{}: {text}", names[0]));
            None
        }
    }
}
