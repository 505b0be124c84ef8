//! What stands before, between and behind the delimiters of a multipart body.

use std::mem;

use memchr::memmem;
use sha2::{Digest, Sha256};

use super::{LINE_END, Malformed};
use crate::fingerprint::{
    fields::FieldHasher,
    media_type::{is_token, trim},
};

/// The longest header of a part, in bytes, counted from the end of the delimiter's line.
const HEADER_BYTES_MAX: usize = 16 * 1024;

// === types ===

/// Hashes the sections: as fields, the digest of the text before the first part; header and digest of
/// the content of each part; the digest of the text behind the last part.
pub(super) struct Sections {
    hasher: FieldHasher,
    section: Section,
}

enum Section {
    /// Before the first part.
    Preamble(Sha256),
    /// The header of a part so far, behind a line end.
    Header(Vec<u8>),
    /// The content of a part.
    Content(Sha256),
    /// Behind the last part.
    Epilogue(Sha256),
}

// === impl Sections ===

impl Sections {
    pub(super) fn new() -> Self {
        Self { hasher: FieldHasher::plain(), section: Section::Preamble(Sha256::new()) }
    }

    /// Goes on with the present section.
    pub(super) fn update(&mut self, text: &[u8]) -> Result<(), Malformed> {
        match &mut self.section {
            Section::Preamble(hasher) | Section::Content(hasher) | Section::Epilogue(hasher) => hasher.update(text),
            Section::Header(header) => {
                // The empty line behind the header may have begun in what is there already.
                let from = header.len().saturating_sub(3);
                header.extend_from_slice(text);
                let end = memmem::find(&header[from..], b"\r\n\r\n").map(|end| from + end);
                match end {
                    Some(end) if end <= HEADER_BYTES_MAX => self.end_header(end)?,
                    None if header.len() < HEADER_BYTES_MAX + 4 => {}
                    Some(_) | None => return Err(Malformed),
                }
            }
        }
        Ok(())
    }

    /// Ends the present section at a delimiter and begins the next: a part, or the text behind the
    /// last one.
    pub(super) fn next(&mut self, is_behind_last: bool) -> Result<(), Malformed> {
        let next = if is_behind_last { Section::Epilogue(Sha256::new()) } else { Section::Header(LINE_END.to_vec()) };
        match mem::replace(&mut self.section, next) {
            Section::Preamble(hasher) | Section::Content(hasher) => self.hasher.field(&hasher.finalize()),
            Section::Header(_) | Section::Epilogue(_) => return Err(Malformed),
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<[u8; 32], Malformed> {
        let Section::Epilogue(hasher) = self.section else { return Err(Malformed) };
        self.hasher.field(&hasher.finalize());
        Ok(self.hasher.finish())
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        match &self.section {
            Section::Header(header) => header.capacity(),
            Section::Preamble(_) | Section::Content(_) | Section::Epilogue(_) => 0,
        }
    }

    /// The header ends at `end` of what is held; the content follows.
    fn end_header(&mut self, end: usize) -> Result<(), Malformed> {
        let content = Section::Content(Sha256::new());
        let Section::Header(held) = mem::replace(&mut self.section, content) else {
            unreachable!("only a header is ended");
        };
        let header = held[..end].strip_prefix(LINE_END).unwrap_or_default();
        self.hasher.field(&normalise(header)?);
        self.update(&held[end + 4..])
    }
}

/// The header's fields, each as `name:value` and a line end: names in lower case, values without white
/// space around them.
fn normalise(header: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut normal = Vec::with_capacity(header.len() + LINE_END.len());
    let mut rest = header;
    while !rest.is_empty() {
        let end = memmem::find(rest, LINE_END).unwrap_or(rest.len());
        normalise_field(&rest[..end], &mut normal)?;
        rest = rest[end..].strip_prefix(LINE_END).unwrap_or_default();
    }
    Ok(normal)
}

/// A folded line starts with white space and so has no name: it is malformed. So is a bare carriage
/// return or line feed, at which some readers would end the line.
fn normalise_field(line: &[u8], normal: &mut Vec<u8>) -> Result<(), Malformed> {
    let colon = memchr::memchr(b':', line).ok_or(Malformed)?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    if !is_token(name) || memchr::memchr2(b'\r', b'\n', value).is_some() {
        return Err(Malformed);
    }
    normal.extend(name.iter().map(u8::to_ascii_lowercase));
    normal.push(b':');
    normal.extend_from_slice(value);
    normal.extend_from_slice(LINE_END);
    Ok(())
}
