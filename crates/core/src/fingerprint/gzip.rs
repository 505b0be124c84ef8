//! Removing gzip, within limits.

use std::io::{self, Write};

use flate2::write::GzDecoder;

use super::{DecodedTooLarge, content::Content};

/// The most gzip members in one body. RFC 1952 allows any number; each costs a new decoder, and
/// empty ones take 20 bytes.
const MEMBERS_MAX: u32 = 1024;

// === types ===

/// Decodes one body into a [`Content`].
pub(super) struct Gzip {
    /// None when the coding is broken, or too much was decoded.
    member: Option<GzDecoder<Decoded>>,
    /// Members begun.
    members: u32,
    too_large: Option<DecodedTooLarge>,
}

/// What was decoded so far.
struct Decoded {
    content: Content,
    bytes: u64,
    bytes_max: u64,
}

// === impl Gzip ===

impl Gzip {
    pub(super) fn new(content: Content, bytes_max: u64) -> Self {
        let decoded = Decoded { content, bytes: 0, bytes_max };
        Self { member: Some(GzDecoder::new(decoded)), members: 1, too_large: None }
    }

    /// Decodes more. Nothing is decoded when the coding is broken or too much was decoded already.
    pub(super) fn update(&mut self, chunk: &[u8]) -> Result<(), DecodedTooLarge> {
        let mut rest = chunk;
        while let (false, Some(member)) = (rest.is_empty(), &mut self.member) {
            match member.write(rest) {
                Ok(0) => self.next_member(),
                Ok(length) => rest = &rest[length..],
                Err(_) => self.give_up(),
            }
        }
        self.check()
    }

    /// What was decoded, or none when it is not a sequence of whole gzip members.
    pub(super) fn finish(mut self) -> Result<Option<Content>, DecodedTooLarge> {
        let decoded = self.end_member();
        self.check()?;
        Ok(decoded.map(|decoded| decoded.content))
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        /// Its output buffer and, in `miniz_oxide`, its window and tables.
        const DECODER: usize = 32 * 1024 + 44 * 1024;
        self.member.as_ref().map_or(0, |member| DECODER + member.get_ref().content.held_bytes())
    }

    fn next_member(&mut self) {
        self.members += 1;
        let decoded = self.end_member().filter(|_| self.members <= MEMBERS_MAX);
        self.member = decoded.map(GzDecoder::new);
    }

    /// Checks length and checksum of the member.
    fn end_member(&mut self) -> Option<Decoded> {
        let mut member = self.member.take()?;
        let ended = member.try_finish();
        self.note_limit(member.get_ref());
        ended.and_then(|()| member.finish()).ok()
    }

    /// The coding is broken. What had been decoded before still counts against the limit, also what
    /// the decoder had not written yet: else the answer would depend on how the body was cut.
    fn give_up(&mut self) {
        let _ = self.end_member();
    }

    fn note_limit(&mut self, decoded: &Decoded) {
        if decoded.bytes > decoded.bytes_max {
            self.too_large = Some(DecodedTooLarge { bytes_max: decoded.bytes_max });
        }
    }

    fn check(&self) -> Result<(), DecodedTooLarge> {
        self.too_large.map_or(Ok(()), Err)
    }
}

impl Write for Decoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.content.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
