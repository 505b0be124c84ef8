//! The canonical text of a JSON value, and its digest, in bounded memory.
//!
//! The text has no white space, one form of each character ([`super::escape`]), number literals as
//! they were written, and the members of an object in the order of their names. To be sorted they
//! must be held until the object ends. So that this needs little memory, a member's name or value
//! whose text is longer than [`HELD_BYTES_MAX`] is held, and stands in the object's text, as `#` and
//! the SHA-256 of that text; and the members held at once are limited.
//!
//! Everything held lies in one arena: the texts begun and not ended, outermost first, and between
//! them the members of the open objects. Only the text at the end of the arena grows. When it reaches
//! [`MOVED_BYTES_MIN`] it moves into a hasher, from which it can only come back as a digest.

mod member;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use self::member::Member;
use super::{Unreadable, escape};
use crate::fingerprint::pointer::{NodeId, PointerTree};

/// A name or value with a longer text is held as a digest.
const HELD_BYTES_MAX: usize = 64;
/// The most members of open objects together. So many of the longest are 2.1 MiB, for which the
/// growing arena reserves 4 MiB.
pub(super) const MEMBERS_MAX: usize = 16_384;
/// The most arrays and objects open at once.
pub(super) const DEPTH_MAX: usize = 128;
/// Texts of this length move into a hasher: it is more than can be held, and enough to hash at speed.
const MOVED_BYTES_MIN: usize = 1024;

// === types ===

/// Writes a value in canonical form and hashes it.
///
/// The caller keeps to the grammar: names in objects only, one value behind each.
pub(super) struct Canonical {
    arena: Vec<u8>,
    /// The text at the end of the arena.
    text: Text,
    /// One for each unfinished text that moved, outermost first.
    hashers: Vec<Sha256>,
    /// The finished members of the open objects, outermost object first.
    members: Vec<Member>,
    frames: Vec<Frame>,
    ignore: Option<Arc<PointerTree>>,
    /// Where the value being written stands on the way to ignored places, if it does.
    node: Option<NodeId>,
    /// Reused for sorting.
    sorted: Vec<u8>,
}

/// An array or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Array,
    Object,
}

/// A text that has not ended.
#[derive(Clone, Copy)]
struct Text {
    /// Where it starts in the arena, or what of it has not moved.
    start: usize,
    has_moved: bool,
}

/// An open container.
enum Frame {
    Array(Array),
    Object(Object),
}

struct Array {
    node: Option<NodeId>,
    /// Elements begun, ignored ones too.
    count: u64,
    /// Whether an element has been written.
    has_elements: bool,
    /// The text that goes on behind the ignored element being written.
    behind_ignored: Option<Text>,
}

struct Object {
    node: Option<NodeId>,
    /// The text that the object is part of, up to the opening brace.
    outer: Text,
    /// Where its first member starts in the arena.
    start: usize,
    /// The index of its first member.
    first: usize,
    /// Whether the members so far lie in the arena just as they stand in the text.
    is_in_order: bool,
    /// The member being written, without its value; none before the first.
    member: Option<Member>,
    is_ignored: bool,
}

/// A member's name as [`Canonical`] holds it.
pub(in crate::fingerprint) fn held_name(name: &str) -> Box<[u8]> {
    let mut canonical = Canonical::new(None);
    canonical.put(b"\"");
    for character in name.chars() {
        canonical.put(escape::canonical(character, &mut [0; 6]));
    }
    canonical.put(b"\"");
    canonical.hold();
    canonical.arena.into_boxed_slice()
}

// === impl Canonical ===

impl Canonical {
    pub(super) fn new(ignore: Option<Arc<PointerTree>>) -> Self {
        Self {
            arena: Vec::with_capacity(2 * MOVED_BYTES_MIN),
            text: Text::at(0),
            hashers: Vec::new(),
            members: Vec::with_capacity(32),
            frames: Vec::with_capacity(8),
            node: ignore.is_some().then_some(PointerTree::ROOT),
            ignore,
            sorted: Vec::new(),
        }
    }

    /// The digest of the text, which must be whole.
    pub(super) fn finish(mut self) -> [u8; 32] {
        self.take_digest()
    }

    /// The innermost open container.
    pub(super) fn container(&self) -> Option<Container> {
        self.frames.last().map(|frame| match frame {
            Frame::Array(_) => Container::Array,
            Frame::Object(_) => Container::Object,
        })
    }

    /// Goes on with the text.
    #[inline]
    pub(super) fn put(&mut self, more: &[u8]) {
        if self.text_length() + more.len() < MOVED_BYTES_MIN {
            self.arena.extend_from_slice(more);
        } else {
            self.put_into_hasher(more);
        }
    }

    pub(super) fn begin_name(&mut self) {
        self.text = Text::at(self.arena.len());
    }

    pub(super) fn end_name(&mut self) {
        self.hold();
        let Some(Frame::Object(object)) = self.frames.last_mut() else { unreachable!("names are in objects") };
        let member = Member::with_name(&self.arena, self.text.start);
        if let Some(last) = self.members[object.first..].last() {
            object.is_in_order &= last.compare(&member, &self.arena).is_lt();
        }
        let step = |tree: &PointerTree, node| tree.member(node, &self.arena[member.name()]);
        self.node = next_node(self.ignore.as_deref(), object.node, step);
        object.is_ignored = is_ignored(self.ignore.as_deref(), self.node);
        object.member = Some(member);
        self.arena.push(b':');
        self.text = Text::at(self.arena.len());
    }

    pub(super) fn begin_value(&mut self) {
        let Some(Frame::Array(array)) = self.frames.last_mut() else { return };
        let index = array.count;
        array.count += 1;
        let step = |tree: &PointerTree, node| tree.element(node, index);
        self.node = next_node(self.ignore.as_deref(), array.node, step);
        if is_ignored(self.ignore.as_deref(), self.node) {
            array.behind_ignored = Some(self.text);
            self.text = Text::at(self.arena.len());
        } else if array.has_elements {
            self.put(b",");
        } else {
            array.has_elements = true;
        }
    }

    pub(super) fn end_value(&mut self) -> Result<(), Unreadable> {
        match self.frames.last_mut() {
            None => Ok(()),
            Some(Frame::Object(object)) => {
                let member = object.member.expect("a value has a name");
                // An ignored member is held by its name, to see whether it is there twice, and must be
                // left out when the text is put together.
                object.is_in_order &= !object.is_ignored;
                let is_ignored = object.is_ignored;
                self.end_member(member, is_ignored)
            }
            Some(Frame::Array(array)) => {
                if let Some(outer) = array.behind_ignored.take() {
                    self.drop_text();
                    self.text = outer;
                }
                Ok(())
            }
        }
    }

    pub(super) fn open(&mut self, container: Container) -> Result<(), Unreadable> {
        if self.frames.len() == DEPTH_MAX {
            return Err(Unreadable);
        }
        let node = self.node;
        let frame = match container {
            Container::Array => {
                self.put(b"[");
                Frame::Array(Array { node, count: 0, has_elements: false, behind_ignored: None })
            }
            Container::Object => {
                self.put(b"{");
                let (start, first) = (self.arena.len(), self.members.len());
                let outer = self.text;
                Frame::Object(Object { node, outer, start, first, is_in_order: true, member: None, is_ignored: false })
            }
        };
        self.frames.push(frame);
        Ok(())
    }

    /// Ends the innermost container.
    pub(super) fn close(&mut self) -> Result<(), Unreadable> {
        match self.frames.pop().expect("what is closed was opened") {
            Frame::Array(_) => self.put(b"]"),
            Frame::Object(object) => self.close_object(&object)?,
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.arena.capacity()
            + self.sorted.capacity()
            + self.members.capacity() * size_of::<Member>()
            + self.frames.capacity() * size_of::<Frame>()
            + self.hashers.capacity() * size_of::<Sha256>()
    }

    fn end_member(&mut self, member: Member, is_ignored: bool) -> Result<(), Unreadable> {
        if self.members.len() == MEMBERS_MAX {
            return Err(Unreadable);
        }
        if is_ignored {
            self.drop_text();
            self.members.push(member);
        } else {
            let length = self.hold();
            self.arena.push(b',');
            self.members.push(member.with_value(length));
        }
        Ok(())
    }

    fn close_object(&mut self, object: &Object) -> Result<(), Unreadable> {
        self.text = object.outer;
        if !object.is_in_order {
            self.sort_members(object)?;
        } else if object.first < self.members.len() {
            self.arena.pop().expect("the comma behind the last member");
        }
        self.put(b"}");
        self.members.truncate(object.first);
        Ok(())
    }

    /// Replaces the members at the end of the arena by their text in order.
    fn sort_members(&mut self, object: &Object) -> Result<(), Unreadable> {
        let members = &mut self.members[object.first..];
        members.sort_unstable_by(|one, other| one.compare(other, &self.arena));
        if members.windows(2).any(|pair| pair[0].compare(&pair[1], &self.arena).is_eq()) {
            return Err(Unreadable);
        }
        if self.text_length() < MOVED_BYTES_MIN {
            self.sorted.clear();
            for text in self.members[object.first..].iter().filter_map(|member| member.text(&self.arena)) {
                self.sorted.extend_from_slice(text);
                self.sorted.push(b',');
            }
            self.sorted.pop();
            self.arena.truncate(object.start);
            self.arena.extend_from_slice(&self.sorted);
        } else {
            // Straight into the hasher: a copy would double what is held.
            self.hash_text(object.start);
            let hasher = self.hashers.last_mut().expect("the text has moved");
            let mut separator = "";
            for text in self.members[object.first..].iter().filter_map(|member| member.text(&self.arena)) {
                hasher.update(separator);
                hasher.update(text);
                separator = ",";
            }
            self.arena.truncate(self.text.start);
        }
        Ok(())
    }

    /// Ends the text of a name or value: what is too long to be held becomes its tagged digest.
    /// Returns the length of what is held.
    #[inline]
    fn hold(&mut self) -> u8 {
        if self.text.has_moved || self.text_length() > HELD_BYTES_MAX {
            self.replace_by_digest();
        }
        u8::try_from(self.text_length()).expect("at most HELD_BYTES_MAX")
    }

    #[inline(never)]
    fn replace_by_digest(&mut self) {
        let digest = self.take_digest();
        self.arena.push(b'#');
        self.arena.extend_from_slice(&digest);
    }

    /// Takes the text out of the arena and hashes it.
    fn take_digest(&mut self) -> [u8; 32] {
        let digest = if self.text.has_moved {
            self.move_text();
            self.hashers.pop().expect("one for each text that moved").finalize()
        } else {
            Sha256::digest(&self.arena[self.text.start..])
        };
        self.arena.truncate(self.text.start);
        digest.into()
    }

    fn drop_text(&mut self) {
        self.arena.truncate(self.text.start);
        if self.text.has_moved {
            self.hashers.pop();
        }
    }

    /// Apart, so that the usual way of [`Self::put`] stays a few instructions.
    #[inline(never)]
    fn put_into_hasher(&mut self, more: &[u8]) {
        self.move_text().update(more);
    }

    /// Moves the text into its hasher, and returns that.
    fn move_text(&mut self) -> &mut Sha256 {
        self.hash_text(self.arena.len());
        self.arena.truncate(self.text.start);
        self.hashers.last_mut().expect("the text has moved")
    }

    /// Hashes the text up to `end`; the caller removes it from the arena.
    fn hash_text(&mut self, end: usize) {
        if !self.text.has_moved {
            self.hashers.push(Sha256::new());
            self.text.has_moved = true;
        }
        let hasher = self.hashers.last_mut().expect("the text has moved");
        hasher.update(&self.arena[self.text.start..end]);
    }

    fn text_length(&self) -> usize {
        self.arena.len() - self.text.start
    }
}

fn next_node(
    tree: Option<&PointerTree>,
    container: Option<NodeId>,
    step: impl FnOnce(&PointerTree, NodeId) -> Option<NodeId>,
) -> Option<NodeId> {
    step(tree?, container?)
}

fn is_ignored(tree: Option<&PointerTree>, node: Option<NodeId>) -> bool {
    tree.zip(node).is_some_and(|(tree, node)| tree.is_ignored(node))
}

// === impl Text ===

impl Text {
    fn at(start: usize) -> Self {
        Self { start, has_moved: false }
    }
}
