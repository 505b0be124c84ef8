//! JSON by meaning: one pass over the text, chunk by chunk, in bounded memory.
//!
//! [`Reader`] knows the grammar (RFC 8259) and is strict: whatever another parser might read
//! differently is unreadable here. [`Canonical`] writes what was read in canonical form and hashes it.

mod canonical;
mod escape;
mod number;
mod utf8;

use std::sync::Arc;

use self::{
    canonical::{Canonical, Container},
    number::Part,
    utf8::Utf8,
};
use super::pointer::PointerTree;

pub(super) use self::canonical::held_name;

// === types ===

/// The text is not JSON, or means different things to different parsers, or is beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Reads one JSON text.
pub(super) struct Reader {
    state: State,
    /// Whether the string being read is a member's name.
    in_name: bool,
    utf8: Utf8,
    canonical: Canonical,
}

/// What may come next.
#[derive(Debug, Clone, Copy)]
enum State {
    /// A value.
    Value,
    /// A value, or the end of the array that has just begun.
    FirstValue,
    /// A member's name.
    Name,
    /// A member's name, or the end of the object that has just begun.
    FirstName,
    /// The colon behind a name.
    Colon,
    /// A comma or the end of the container; the end of the text where there is none.
    AfterValue,
    /// The rest of a string.
    String,
    /// What follows a backslash in a string.
    Escape,
    /// More hexadecimal digits of a `\u` escape.
    Unicode {
        unit: u16,
        digits: u8,
        high: Option<u16>,
    },
    /// The backslash, and then the `u`, of the low surrogate that must follow the `high` one.
    LowBackslash {
        high: u16,
    },
    LowU {
        high: u16,
    },
    /// More of a number.
    Number(Part),
    /// More of `true`, `false` or `null`.
    Word {
        word: Word,
        length: u8,
    },
}

/// The values that are written as words.
#[derive(Debug, Clone, Copy)]
enum Word {
    True,
    False,
    Null,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(ignore: Option<Arc<PointerTree>>) -> Self {
        Self { state: State::Value, in_name: false, utf8: Utf8::default(), canonical: Canonical::new(ignore) }
    }

    /// Reads on. After an error the reader is of no use.
    pub(super) fn update(&mut self, chunk: &[u8]) -> Result<(), Unreadable> {
        // Outside strings every byte beyond ASCII is a syntax error, so checking the whole text at
        // once, which is fast, says the same as checking the strings one by one. A text that ends
        // within a character has not ended its string.
        self.utf8.update(chunk)?;
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = self.step(rest)?;
        }
        Ok(())
    }

    /// The digest of the canonical text, when what was read is one complete JSON text.
    pub(super) fn finish(mut self) -> Result<[u8; 32], Unreadable> {
        if let State::Number(part) = self.state {
            self.end_number(part)?;
        }
        match (self.state, self.canonical.container()) {
            (State::AfterValue, None) => Ok(self.canonical.finish()),
            (_, _) => Err(Unreadable),
        }
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.canonical.held_bytes()
    }

    /// Consumes at least one byte of `rest`, which is not empty, and returns what is left.
    ///
    /// What follows in the usual way, such as a value behind a colon, is read in the same step: a
    /// direct call is predicted far better than the jump from here.
    fn step<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        match self.state {
            State::Value => self.value(rest),
            State::FirstValue => self.first_value(rest),
            State::Name => self.name(rest),
            State::FirstName => self.first_name(rest),
            State::Colon => self.colon(rest),
            State::AfterValue => self.after_value(rest),
            State::String => self.string(rest),
            State::Number(part) => self.number(part, rest),
            State::Word { word, length } => self.word(word, length, rest),
            State::Escape => self.escape(rest[0]).map(|()| &rest[1..]),
            State::Unicode { unit, digits, high } => self.unicode(unit, digits, high, rest[0]).map(|()| &rest[1..]),
            State::LowBackslash { high } => self.expect(b'\\', State::LowU { high }, rest),
            State::LowU { high } => self.expect(b'u', State::Unicode { unit: 0, digits: 0, high: Some(high) }, rest),
        }
    }

    fn value<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let rest = skip_space(rest);
        let Some((byte, behind)) = rest.split_first() else { return Ok(&[]) };
        self.canonical.begin_value();
        match byte {
            b'"' => self.begin_string(rest),
            b'{' => self.open(Container::Object, State::FirstName, behind),
            b'[' => self.open(Container::Array, State::FirstValue, behind),
            b't' => self.word(Word::True, 0, rest),
            b'f' => self.word(Word::False, 0, rest),
            b'n' => self.word(Word::Null, 0, rest),
            _ => self.number(Part::Start, rest),
        }
    }

    fn first_value<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        match skip_space(rest) {
            [b']', behind @ ..] => self.close(behind),
            rest => self.value(rest),
        }
    }

    fn name<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        match skip_space(rest) {
            [] => Ok(&[]),
            rest @ [b'"', ..] => {
                self.canonical.begin_name();
                self.in_name = true;
                self.begin_string(rest)
            }
            [_, ..] => Err(Unreadable),
        }
    }

    fn first_name<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        match skip_space(rest) {
            [b'}', behind @ ..] => self.close(behind),
            rest => self.name(rest),
        }
    }

    fn colon<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        match skip_space(rest) {
            [] => Ok(&[]),
            [b':', behind @ ..] => {
                self.state = State::Value;
                self.value(behind)
            }
            [_, ..] => Err(Unreadable),
        }
    }

    fn after_value<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let Some((byte, behind)) = skip_space(rest).split_first() else { return Ok(&[]) };
        match (byte, self.canonical.container()) {
            (b',', Some(Container::Object)) => {
                self.state = State::Name;
                self.name(behind)
            }
            (b',', Some(Container::Array)) => {
                self.state = State::Value;
                self.value(behind)
            }
            (b'}', Some(Container::Object)) | (b']', Some(Container::Array)) => self.close(behind),
            (_, _) => Err(Unreadable),
        }
    }

    /// Containers are opened one to a step, so that deep texts do not need a deep stack.
    fn open<'t>(&mut self, container: Container, next: State, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        self.state = next;
        self.canonical.open(container)?;
        Ok(rest)
    }

    fn close<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        self.canonical.close()?;
        self.end_value()?;
        Ok(rest)
    }

    fn end_value(&mut self) -> Result<(), Unreadable> {
        self.state = State::AfterValue;
        self.canonical.end_value()
    }

    fn expect<'t>(&mut self, byte: u8, next: State, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        if rest[0] != byte {
            return Err(Unreadable);
        }
        self.state = next;
        Ok(&rest[1..])
    }

    /// Reads on in a word, of which `length` bytes have been read.
    fn word<'t>(&mut self, word: Word, length: u8, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let missing = &word.as_bytes()[usize::from(length)..];
        let more = missing.len().min(rest.len());
        if rest[..more] != missing[..more] {
            return Err(Unreadable);
        }
        self.canonical.put(&missing[..more]);
        if more == missing.len() {
            self.end_value()?;
        } else {
            let more = u8::try_from(more).expect("words are short");
            self.state = State::Word { word, length: length + more };
        }
        Ok(&rest[more..])
    }

    /// Literals are kept as they were written: 1.0 is not 1, and no digit is lost.
    fn number<'t>(&mut self, mut part: Part, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let mut length = 0;
        while let Some(next) = rest.get(length).and_then(|&byte| part.next(byte)) {
            part = next;
            length += 1;
        }
        self.canonical.put(&rest[..length]);
        if length < rest.len() {
            self.end_number(part)?;
        } else {
            self.state = State::Number(part);
        }
        Ok(&rest[length..])
    }

    fn end_number(&mut self, part: Part) -> Result<(), Unreadable> {
        if !part.may_end() {
            return Err(Unreadable);
        }
        self.end_value()
    }

    /// Reads from the opening quote on; a string that ends in this chunk is copied at once.
    fn begin_string<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let length = 1 + escape::plain_run(&rest[1..]);
        if rest.get(length) == Some(&b'"') {
            self.canonical.put(&rest[..=length]);
            return self.end_string(&rest[length + 1..]);
        }
        self.canonical.put(&rest[..length]);
        self.state = State::String;
        Ok(&rest[length..])
    }

    fn string<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        let (run, rest) = rest.split_at(escape::plain_run(rest));
        self.canonical.put(run);
        match rest {
            [] => Ok(&[]),
            [b'"', behind @ ..] => {
                self.canonical.put(b"\"");
                self.end_string(behind)
            }
            [b'\\', behind @ ..] => {
                self.state = State::Escape;
                Ok(behind)
            }
            [_control, ..] => Err(Unreadable),
        }
    }

    fn end_string<'t>(&mut self, rest: &'t [u8]) -> Result<&'t [u8], Unreadable> {
        if self.in_name {
            self.in_name = false;
            self.canonical.end_name();
            self.state = State::Colon;
            self.colon(rest)
        } else {
            self.end_value()?;
            Ok(rest)
        }
    }

    fn escape(&mut self, byte: u8) -> Result<(), Unreadable> {
        if byte == b'u' {
            self.state = State::Unicode { unit: 0, digits: 0, high: None };
            return Ok(());
        }
        self.put_char(escape::meaning(byte).ok_or(Unreadable)?);
        Ok(())
    }

    fn unicode(&mut self, unit: u16, digits: u8, high: Option<u16>, byte: u8) -> Result<(), Unreadable> {
        let digit = char::from(byte).to_digit(16).ok_or(Unreadable)?;
        let unit = unit << 4 | u16::try_from(digit).expect("a hexadecimal digit is below 16");
        match (digits + 1, high, unit) {
            (..4, _, _) => self.state = State::Unicode { unit, digits: digits + 1, high },
            (_, None, 0xd800..=0xdbff) => self.state = State::LowBackslash { high: unit },
            (_, _, _) => {
                let units = high.into_iter().chain([unit]);
                let mut characters = char::decode_utf16(units);
                let character = characters.next().expect("at least one unit").map_err(|_lone_surrogate| Unreadable)?;
                self.put_char(character);
            }
        }
        Ok(())
    }

    fn put_char(&mut self, character: char) {
        self.state = State::String;
        self.canonical.put(escape::canonical(character, &mut [0; 6]));
    }
}

fn skip_space(mut rest: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', behind @ ..] = rest {
        rest = behind;
    }
    rest
}

// === impl Word ===

impl Word {
    fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

#[cfg(test)]
mod tests;
