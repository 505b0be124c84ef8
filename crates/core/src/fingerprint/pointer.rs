//! JSON pointers, and the tree in which a reader follows many of them at once.

use std::{borrow::Cow, fmt, str::FromStr};

use super::json::held_name;

// === types ===

/// A JSON pointer (RFC 6901), such as `/client/sent_at` or `/items/0`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JsonPointer(Box<str>);

/// Why a text is not a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPointerError {
    /// It neither is empty nor starts with `/`.
    #[error("JSON pointer {text:?} does not start with \"/\": RFC 6901 wants one before each step")]
    NoSlash {
        /// What was given.
        text: String,
    },
    /// `~` without `0` or `1` behind it.
    #[error("JSON pointer {text:?} has a bare \"~\": \"~0\" stands for \"~\" and \"~1\" for \"/\"")]
    BareTilde {
        /// What was given.
        text: String,
    },
    /// More than [`JsonPointer::LENGTH_MAX`] bytes.
    #[error("JSON pointer of {length} bytes: at most {} are allowed", JsonPointer::LENGTH_MAX)]
    TooLong {
        /// Bytes found.
        length: usize,
    },
}

/// The ignored places of a document; a reader holds the node of the value it stands at.
#[derive(Debug, Default)]
pub(super) struct PointerTree {
    nodes: Vec<Node>,
}

/// A place in a [`PointerTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(usize);

#[derive(Debug, Default)]
struct Node {
    is_ignored: bool,
    children: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    /// The step as an object's reader holds a member's name.
    name: Box<[u8]>,
    /// The step as an array's index, if it can be one.
    index: Option<u64>,
    node: NodeId,
}

// === impl JsonPointer ===

impl JsonPointer {
    /// The longest pointer, in bytes.
    pub const LENGTH_MAX: usize = 1024;

    /// Reads a pointer.
    ///
    /// # Errors
    /// When the text is not one by RFC 6901 section 3, or too long.
    pub fn parse(text: &str) -> Result<Self, JsonPointerError> {
        if text.len() > Self::LENGTH_MAX {
            return Err(JsonPointerError::TooLong { length: text.len() });
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(JsonPointerError::NoSlash { text: text.to_owned() });
        }
        let mut behind_tildes = text.split('~').skip(1);
        if !behind_tildes.all(|behind| behind.starts_with(['0', '1'])) {
            return Err(JsonPointerError::BareTilde { text: text.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// The pointer as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the empty pointer, which names the whole document.
    #[must_use]
    pub fn is_whole_document(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and indices on the way, unescaped.
    pub fn steps(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.split('/').skip(1).map(|step| match step.contains('~') {
            // In this order (RFC 6901 section 4): `~01` is `~1`, not `/`.
            true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
            false => Cow::Borrowed(step),
        })
    }

    /// The array index that a step is, as RFC 6901 section 4 writes it: decimal, without leading zeros. `-`, the element
    /// behind the last, never names a value that a request contains.
    #[must_use]
    pub fn index(step: &str) -> Option<u64> {
        let is_canonical = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
        is_canonical.then(|| step.parse().ok()).flatten()
    }
}

impl FromStr for JsonPointer {
    type Err = JsonPointerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonPointer({:?})", self.0)
    }
}

// === impl PointerTree ===

impl PointerTree {
    /// The whole document.
    pub(super) const ROOT: NodeId = NodeId(0);

    pub(super) fn new<'a>(pointers: impl IntoIterator<Item = &'a JsonPointer>) -> Self {
        let mut tree = Self { nodes: vec![Node::default()] };
        for pointer in pointers {
            let node = pointer.steps().fold(Self::ROOT, |node, step| tree.child_or_new(node, &step));
            tree.nodes[node.0].is_ignored = true;
        }
        tree
    }

    /// The member with this name, as the reader holds it, of the object at `node`.
    pub(super) fn member(&self, node: NodeId, held_name: &[u8]) -> Option<NodeId> {
        let children = &self.nodes[node.0].children;
        children.iter().find(|child| *child.name == *held_name).map(|child| child.node)
    }

    /// The element of the array at `node`.
    pub(super) fn element(&self, node: NodeId, index: u64) -> Option<NodeId> {
        let children = &self.nodes[node.0].children;
        children.iter().find(|child| child.index == Some(index)).map(|child| child.node)
    }

    pub(super) fn is_ignored(&self, node: NodeId) -> bool {
        self.nodes[node.0].is_ignored
    }

    fn child_or_new(&mut self, parent: NodeId, step: &str) -> NodeId {
        let name = held_name(step);
        if let Some(node) = self.member(parent, &name) {
            return node;
        }
        let node = NodeId(self.nodes.len());
        self.nodes.push(Node::default());
        self.nodes[parent.0].children.push(Child { name, index: JsonPointer::index(step), node });
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<String> {
        JsonPointer::parse(text).unwrap().steps().map(Cow::into_owned).collect()
    }

    #[test]
    fn the_pointers_of_rfc_6901_section_5_are_read() {
        assert!(JsonPointer::parse("").unwrap().is_whole_document());
        assert_eq!(steps(""), Vec::<String>::new());
        assert_eq!(steps("/foo/0"), ["foo", "0"]);
        assert_eq!(steps("/"), [""]);
        assert_eq!(steps("/a~1b"), ["a/b"]);
        assert_eq!(steps("/m~0n"), ["m~n"]);
        assert_eq!(steps("/~01"), ["~1"]);
        assert_eq!(steps("/ "), [" "]);
    }

    #[test]
    fn other_texts_are_refused() {
        assert!(matches!(JsonPointer::parse("a"), Err(JsonPointerError::NoSlash { .. })));
        assert!(matches!(JsonPointer::parse("#/a"), Err(JsonPointerError::NoSlash { .. })));
        for text in ["/~", "/a~", "/~2", "/~~0", "/~0~"] {
            assert!(matches!(JsonPointer::parse(text), Err(JsonPointerError::BareTilde { .. })), "{text}");
        }
        assert!(JsonPointer::parse(&format!("/{}", "a".repeat(1023))).is_ok());
        assert!(JsonPointer::parse(&format!("/{}", "a".repeat(1024))).is_err());
    }

    #[test]
    fn indices_have_no_leading_zeros() {
        assert_eq!(JsonPointer::index("0"), Some(0));
        assert_eq!(JsonPointer::index("10"), Some(10));
        for step in ["", "-", "00", "01", "+1", "1e0", "18446744073709551616"] {
            assert_eq!(JsonPointer::index(step), None, "{step}");
        }
    }
}
