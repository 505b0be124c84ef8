//! A member of an object, as it is held until the object ends.

use std::{cmp::Ordering, ops::Range};

/// A member in the arena: `name:value`, or only the name while the value is not there, and when it is
/// ignored. Small, since many are held at once.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// The first bytes of the name, to tell most names apart without looking at the arena.
    prefix: u64,
    start: u32,
    name_length: u8,
    value_length: Option<u8>,
}

impl Member {
    /// A member of which the name stands at the end of the arena.
    pub(super) fn with_name(arena: &[u8], start: usize) -> Self {
        let name = &arena[start..];
        Self {
            prefix: prefix(name),
            start: u32::try_from(start).expect("limited members and texts are far below 4 GiB"),
            name_length: u8::try_from(name.len()).expect("a longer name is held as a digest"),
            value_length: None,
        }
    }

    pub(super) fn with_value(self, length: u8) -> Self {
        Self { value_length: Some(length), ..self }
    }

    /// Orders members by their names.
    pub(super) fn compare(&self, other: &Self, arena: &[u8]) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| arena[self.name()].cmp(&arena[other.name()]))
    }

    /// `name:value`, unless the value is ignored.
    pub(super) fn text<'a>(&self, arena: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::from(self.name_length) + 1 + usize::from(self.value_length?);
        Some(&arena[self.start as usize..][..length])
    }

    /// Where the name stands.
    pub(super) fn name(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.name_length)
    }
}

/// The first eight bytes as a number. Names do not contain NUL, so the zeros behind a shorter one keep
/// the order.
fn prefix(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let number = name.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
            number << (8 * (8 - name.len()))
        }
    }
}
