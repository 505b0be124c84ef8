//! A body without its content coding: its bytes and, where it has one, its meaning.

use sha2::{Digest, Sha256};

use super::{json, media_type::Form, multipart, rules::Rules};

// === types ===

/// Hashes the bytes of a body and, in the same pass, what they mean.
pub(super) struct Content {
    bytes: Sha256,
    meaning: Meaning,
}

/// What was found, and a digest of it.
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) digest: [u8; 32],
}

/// What a digest is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Multipart,
    Bytes,
}

enum Meaning {
    Json(Box<json::Reader>),
    Multipart(Box<multipart::Reader>),
    /// The bytes alone count: another media type, or they could not be read.
    None,
}

// === impl Content ===

impl Content {
    pub(super) fn new(form: Option<Form<'_>>, rules: &Rules) -> Self {
        let meaning = match form {
            Some(Form::Json) => Meaning::Json(Box::new(json::Reader::new(rules.ignore().cloned()))),
            Some(Form::Multipart { boundary }) => Meaning::Multipart(Box::new(multipart::Reader::new(boundary))),
            None => Meaning::None,
        };
        Self { bytes: Sha256::new(), meaning }
    }

    pub(super) fn update(&mut self, chunk: &[u8]) {
        self.bytes.update(chunk);
        let is_readable = match &mut self.meaning {
            Meaning::Json(reader) => reader.update(chunk).is_ok(),
            Meaning::Multipart(reader) => reader.update(chunk).is_ok(),
            Meaning::None => return,
        };
        if !is_readable {
            self.meaning = Meaning::None;
        }
    }

    pub(super) fn finish(self) -> Found {
        let meaning = match self.meaning {
            Meaning::Json(reader) => reader.finish().ok().map(|digest| Found { kind: Kind::Json, digest }),
            Meaning::Multipart(reader) => reader.finish().ok().map(|digest| Found { kind: Kind::Multipart, digest }),
            Meaning::None => None,
        };
        meaning.unwrap_or_else(|| Found { kind: Kind::Bytes, digest: self.bytes.finalize().into() })
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        match &self.meaning {
            Meaning::Json(reader) => reader.held_bytes(),
            Meaning::Multipart(reader) => reader.held_bytes(),
            Meaning::None => 0,
        }
    }
}

// === impl Kind ===

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Multipart => "multipart",
            Self::Bytes => "bytes",
        }
    }
}
