//! What stands in front of PostgreSQL.

use std::time::Duration;

use oncegate_core::Backend;
use oncegate_store::{
    redis,
    tiered::{self, Durability},
};
use oncegate_tower::{Route, Routes};

use super::{
    kind::{Length, TextOf, Word},
    origin::{Fault, Sourced},
    parsed, secret,
    section::Section,
};
use crate::store_address::StoreAddress;

// === types ===

/// A Redis that answers in front of PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    pub(crate) address: redis::Address,
    durability: Sourced<Durability>,
    pub(crate) outbox_limit: Duration,
}

const FRONT: TextOf<redis::Address> =
    TextOf { read: |text| parsed::<redis::Address>(text), show: redis::Address::to_string };
const DURABILITY: Word<Durability> =
    Word(&[("authoritative", Durability::Authoritative), ("outbox", Durability::Outbox)]);
/// Shorter than a commit takes at times would only close the outbox; longer is longer than clients repeat.
const OUTBOX_LIMIT: Length = Length { min: Duration::from_millis(100), max: Duration::from_mins(1) };

/// Reads `front` or `front_file`, and what goes with it.
pub(super) fn read(section: &mut Section, store: &Sourced<StoreAddress>) -> Option<Box<Front>> {
    let address = secret::read(section, ["front", "front_file"], &FRONT, FRONT.read);
    let durability = section.get("durability", &DURABILITY, Sourced::default(Durability::Authoritative));
    let default = tiered::Options::default().outbox_limit;
    let outbox_limit = section.get("outbox_limit", &OUTBOX_LIMIT, Sourced::default(default));
    let is_outbox = durability.value == Durability::Outbox;
    if outbox_limit.value != default && !is_outbox {
        section.fault(&outbox_limit.origin, "outbox_limit is for durability = \"outbox\"");
    }
    let Some(address) = address else {
        if is_outbox {
            section.fault(
                &durability.origin,
                "durability = \"outbox\" is for a store with a front: name a Redis, front = …",
            );
        }
        return None;
    };
    if !matches!(store.value, StoreAddress::Postgres(_)) {
        let text = format!("front stands before a PostgreSQL store, and the store is {}", store.value);
        section.fault(&address.origin, text);
    }
    Some(Box::new(Front { address: address.value, durability, outbox_limit: outbox_limit.value }))
}

// === impl Front ===

impl Front {
    /// What is lost with it.
    pub(crate) fn durability(&self) -> Durability {
        self.durability.value
    }

    /// What a route asks that an outbox cannot give: a backend that completes in its own transaction finds the record there
    /// only once it is drained.
    pub(super) fn check(&self, routes: &Routes) -> Result<(), Fault> {
        let is_transactional = |route: &&std::sync::Arc<Route>| route.policy.backend == Backend::Transactional;
        let found = routes.iter().map(|(_, route)| route).find(is_transactional);
        match found.filter(|_| self.durability.value == Durability::Outbox) {
            None => Ok(()),
            Some(route) => Err(Fault::new(
                &self.durability.origin,
                format!(
                    "durability = \"outbox\" does not go with backend = \"transactional\", which route {} has: its backend \
                     completes records in PostgreSQL that are not there yet; leave it \"authoritative\"",
                    route.name
                ),
            )),
        }
    }
}
