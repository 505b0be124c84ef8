//! A member of an object, as it is held until the object ends.

/// A finished member: `name:value` in the arena, or only the name when the value is ignored.
///
/// Small, since many are held at once.
#[derive(Clone, Copy)]
pub(super) struct Member {
    start: u32,
    name_length: u8,
    /// None when the value is ignored.
    value_length: Option<u8>,
}

impl Member {
    pub(super) fn new(start: usize, name_length: u8, value_length: Option<u8>) -> Self {
        let start = u32::try_from(start).expect("limited members and texts are far below 4 GiB");
        Self { start, name_length, value_length }
    }

    pub(super) fn name<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start as usize..][..usize::from(self.name_length)]
    }

    /// `name:value`, unless it is ignored.
    pub(super) fn text<'a>(&self, arena: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::from(self.name_length) + 1 + usize::from(self.value_length?);
        Some(&arena[self.start as usize..][..length])
    }
}
