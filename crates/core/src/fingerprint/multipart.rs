//! Multipart bodies by their parts (RFC 2046 section 5.1): one pass, chunk by chunk, in bounded memory.
//!
//! Everything of the body counts but the boundary, the white space behind it, and the letter case and
//! white space of header fields. So what a lenient upstream might read in another way than this strict
//! reader, such as a text before the first part, is compared too.

mod section;

use memchr::memmem::Finder;

use self::section::Sections;

// === types ===

/// The body is not well-formed multipart, or could be cut into parts in more than one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads one body.
pub(super) struct Reader {
    /// `--` and the boundary.
    dashed: Finder<'static>,
    state: State,
    /// What was not consumed yet: the end of the previous chunk, which may be the beginning of a
    /// delimiter, and the present piece of the chunk.
    window: Vec<u8>,
    sections: Sections,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the text before the first part, in a part, or in the text behind the last.
    Section,
    /// Directly behind a dashed boundary.
    Behind,
    /// Behind the first of two dashes, which end the last part.
    Dash,
    /// In the white space behind a delimiter.
    Padding,
    /// Behind the carriage return that ends a delimiter.
    Return,
    /// In the white space behind the last delimiter.
    LastPadding,
    /// Behind the carriage return that ends the last delimiter.
    LastReturn,
}

/// How much of a chunk is looked at at once. It bounds the window.
const PIECE_BYTES: usize = 16 * 1024;
const LINE_END: &[u8] = b"\r\n";

// === impl Reader ===

impl Reader {
    pub(super) fn new(boundary: &[u8]) -> Self {
        let dashed = [b"--", boundary].concat();
        Self {
            dashed: Finder::new(&dashed).into_owned(),
            state: State::Section,
            // A delimiter starts with the end of the line before it; the first one may have none.
            window: LINE_END.to_vec(),
            sections: Sections::new(),
        }
    }

    /// Reads on. After an error the reader is of no use.
    pub(super) fn update(&mut self, chunk: &[u8]) -> Result<(), Malformed> {
        for piece in chunk.chunks(PIECE_BYTES) {
            self.window.extend_from_slice(piece);
            let consumed = self.consume()?;
            self.window.drain(..consumed);
        }
        Ok(())
    }

    /// The digest of the parts, when the body was whole.
    pub(super) fn finish(mut self) -> Result<[u8; 32], Malformed> {
        match self.state {
            State::Section => self.sections.update(&self.window)?,
            State::LastPadding => self.sections.next(true)?,
            State::Behind | State::Dash | State::Padding | State::Return | State::LastReturn => return Err(Malformed),
        }
        self.sections.finish()
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.window.capacity() + self.sections.held_bytes()
    }

    /// Reads as much of the window as can be judged, and returns how much that is.
    fn consume(&mut self) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < self.window.len() {
            if self.state != State::Section {
                self.behind_boundary(self.window[at])?;
                at += 1;
                continue;
            }
            let section = &self.window[at..];
            let Some(found) = self.dashed.find(section) else {
                // The longest beginning of a delimiter, which is all but its last byte, may be here.
                let undecided = LINE_END.len() + self.dashed.needle().len() - 1;
                let decided = section.len().saturating_sub(undecided);
                self.sections.update(&section[..decided])?;
                return Ok(at + decided);
            };
            // The dashed boundary within a line: some readers would see a delimiter, others would not.
            let text = section[..found].strip_suffix(LINE_END).ok_or(Malformed)?;
            self.sections.update(text)?;
            at += found + self.dashed.needle().len();
            self.state = State::Behind;
        }
        Ok(at)
    }

    fn behind_boundary(&mut self, byte: u8) -> Result<(), Malformed> {
        self.state = match (self.state, byte) {
            (State::Behind, b'-') => State::Dash,
            (State::Behind | State::Padding, b' ' | b'\t') => State::Padding,
            (State::Behind | State::Padding, b'\r') => State::Return,
            (State::Return, b'\n') => {
                self.sections.next(false)?;
                State::Section
            }
            (State::Dash, b'-') => State::LastPadding,
            (State::LastPadding, b' ' | b'\t') => State::LastPadding,
            (State::LastPadding, b'\r') => State::LastReturn,
            (State::LastReturn, b'\n') => {
                self.sections.next(true)?;
                State::Section
            }
            (_, _) => return Err(Malformed),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
