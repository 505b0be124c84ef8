//! What stands in front of PostgreSQL.

use oncegate_store::redis;

use super::{
    kind::{TextOf, Word},
    origin::Sourced,
    parsed, secret,
    section::Section,
};
use crate::store_address::StoreAddress;

// === types ===

/// What is lost with Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// Nothing: PostgreSQL is asked before anything is executed.
    Authoritative,
    /// What PostgreSQL was not told yet.
    Outbox,
}

const FRONT: TextOf<redis::Address> =
    TextOf { read: |text| parsed::<redis::Address>(text), show: redis::Address::to_string };
const DURABILITY: Word<Durability> =
    Word(&[("authoritative", Durability::Authoritative), ("outbox", Durability::Outbox)]);

/// Reads `front` or `front_file`, and what goes with it.
pub(super) fn read(section: &mut Section, store: &Sourced<StoreAddress>) -> Option<Box<redis::Address>> {
    let front = secret::read(section, ["front", "front_file"], &FRONT, FRONT.read);
    let durability = section.get("durability", &DURABILITY, Sourced::default(Durability::Authoritative));
    section.refuse("outbox_limit", "it comes with durability = \"outbox\"");
    if durability.value == Durability::Outbox {
        section.fault(
            &durability.origin,
            "durability = \"outbox\" is not supported in this version: with \"authoritative\", PostgreSQL is asked before \
             anything is executed, and losing Redis costs time only",
        );
    }
    let front = front?;
    if !matches!(store.value, StoreAddress::Postgres(_)) {
        let text = format!("front stands before a PostgreSQL store, and the store is {}", store.value);
        section.fault(&front.origin, text);
    }
    Some(Box::new(front.value))
}
