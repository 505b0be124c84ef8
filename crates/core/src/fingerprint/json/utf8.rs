//! UTF-8 in chunks.

use std::str::from_utf8;

use super::Unreadable;

/// Checks that a text which arrives in chunks is UTF-8. Holds a character that a chunk's end cut.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    cut: [u8; 4],
    length: usize,
}

impl Utf8 {
    pub(super) fn update(&mut self, chunk: &[u8]) -> Result<(), Unreadable> {
        let mut rest = chunk;
        while self.length > 0 {
            let Some((&byte, behind)) = rest.split_first() else { return Ok(()) };
            rest = behind;
            self.complete(byte)?;
        }
        if let Some(cut) = cut_character(rest)? {
            self.cut[..cut.len()].copy_from_slice(cut);
            self.length = cut.len();
        }
        Ok(())
    }

    fn complete(&mut self, byte: u8) -> Result<(), Unreadable> {
        // A cut character has at most three bytes, or it would be whole or wrong.
        self.cut[self.length] = byte;
        self.length += 1;
        if cut_character(&self.cut[..self.length])?.is_none() {
            self.length = 0;
        }
        Ok(())
    }
}

/// The first bytes of a character with which the text ends, if it does.
fn cut_character(text: &[u8]) -> Result<Option<&[u8]>, Unreadable> {
    match from_utf8(text) {
        Ok(_) => Ok(None),
        Err(error) if error.error_len().is_none() => Ok(Some(&text[error.valid_up_to()..])),
        Err(_) => Err(Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted<'t>(chunks: impl Iterator<Item = &'t [u8]>) -> bool {
        let mut utf8 = Utf8::default();
        let mut chunks = chunks;
        chunks.all(|chunk| utf8.update(chunk).is_ok()) && utf8.length == 0
    }

    #[test]
    fn chunks_are_judged_as_the_whole_text() {
        let texts: [&[u8]; 12] = [
            b"",
            b"plain",
            "aж€😀z".as_bytes(),
            b"\xff",
            b"\x80",
            b"a\xc3",
            b"\xc3(",
            b"\xe2\x82",
            b"\xf0\x9f\x98",
            b"\xf0\x9f\x98\x28",
            b"\xed\xa0\x80",
            b"\xc0\xaf",
        ];
        for text in texts {
            let expected = from_utf8(text).is_ok();
            for size in 1..=text.len().max(1) {
                assert_eq!(is_accepted(text.chunks(size)), expected, "{text:?} by {size}");
            }
        }
    }
}
