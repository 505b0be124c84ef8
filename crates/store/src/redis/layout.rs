//! Which keys a record has. All that belongs to one record has one hash tag, so that one script may touch it in a
//! Cluster too.

use oncegate_core::{Owner, RecordDigest};

use super::caller::Sent;

// === types ===

/// A hash tag: the first byte of a record's digest. 256 of them spread evenly over the nodes of a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u8);

/// How many tags are asked at once: enough that the way to the server does not count, and claims get between. The driver of a
/// Cluster has been seen to wait for itself for ever when a failover met hundreds of calls on their way.
const TAGS_AT_ONCE: usize = 16;

// === impl Tag ===

impl Tag {
    pub(crate) fn of(record: RecordDigest) -> Self {
        let [first, ..] = *record.as_bytes();
        Self(first)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }

    /// The same, in parts that may be asked at once.
    pub(crate) fn parts() -> impl Iterator<Item = Vec<Self>> {
        Self::parts_of(Self::all())
    }

    pub(super) fn parts_of(mut tags: impl Iterator<Item = Self>) -> impl Iterator<Item = Vec<Self>> {
        std::iter::from_fn(move || {
            Some(tags.by_ref().take(TAGS_AT_ONCE).collect::<Vec<_>>()).filter(|tags| !tags.is_empty())
        })
    }

    /// What a verb of one record may touch, in the order that `record.lua` names.
    pub(super) fn keys_of(self, record: RecordDigest, call: &str) -> Vec<String> {
        self.keys(&hexadecimal(record.as_bytes()), call)
    }

    /// The same for what concerns all records of a tag: in place of the record stands what their keys begin with.
    pub(super) fn keys_of_all(self) -> Vec<String> {
        self.keys("", "call:none")
    }

    /// What a front keeps of a record.
    #[cfg(feature = "postgres")]
    pub(super) fn front(self, database: &str, record: RecordDigest) -> String {
        self.key(&format!("front:{database}:{}", hexadecimal(record.as_bytes())))
    }

    /// What a tag holds as long as its data are whole.
    #[cfg(feature = "postgres")]
    pub(super) fn sentinel(self, database: &str) -> String {
        self.key(&format!("sentinel:{database}"))
    }

    /// What a gateway has acknowledged of a tag's records and PostgreSQL may not have yet: a stream.
    #[cfg(feature = "postgres")]
    pub(super) fn outbox(self, gateway: &str) -> String {
        self.key(&format!("outbox:{gateway}"))
    }

    #[cfg(feature = "postgres")]
    pub(super) fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn audit(self) -> String {
        self.key("audit")
    }

    fn keys(self, record: &str, call: &str) -> Vec<String> {
        [record, "tag", "leases", "in_flight", "unknown", "completed", call, "audit"].map(|what| self.key(what)).into()
    }

    fn key(self, what: &str) -> String {
        let Self(tag) = self;
        format!("oncegate:{{{tag:02x}}}:{what}")
    }
}

// === gateways ===

/// The names of the gateways that have an outbox before this database.
#[cfg(feature = "postgres")]
pub(super) fn gateways(database: &str) -> String {
    format!("oncegate:gateways:{database}")
}

/// What is there as long as a gateway lives.
#[cfg(feature = "postgres")]
pub(super) fn alive(gateway: &str) -> String {
    format!("oncegate:alive:{gateway}")
}

// === what is remembered ===

/// The key of one call.
pub(super) fn call(sent: &Sent<'_>) -> String {
    format!("call:{}:{}", sent.handle, sent.number)
}

/// The key of the withdrawal of an owner's claim.
pub(super) fn withdrawal(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "withdrawn:none".to_owned(), |owner| format!("withdrawn:{}", hexadecimal(owner.as_bytes())))
}

/// Digits without hyphens.
pub(super) fn hexadecimal(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_record_have_its_hash_tag() {
        let record = RecordDigest::parse("0a1b2c3d-0000-0000-0000-000000000001").unwrap();
        let keys = Tag::of(record).keys_of(record, "call:x:1");
        assert_eq!(keys[0], "oncegate:{0a}:0a1b2c3d000000000000000000000001");
        assert!(keys.iter().all(|key| key.starts_with("oncegate:{0a}:")), "{keys:?}");
        assert_eq!(RecordDigest::parse(&keys[0][14..]), Some(record));
        assert_eq!(Tag::of(record).keys_of_all()[0], "oncegate:{0a}:");
    }
}
