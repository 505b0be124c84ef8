//! What was taken in the front and PostgreSQL may not have yet, and where its name stands in the outbox of a gateway.

use std::{collections::HashMap, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use oncegate_core::{
    Backend, ClaimRequest, Fence, Fingerprint, IdempotencyKey, KeySpelling, OnAbandoned, Operation, Owner, Policy,
    RecordId, Scope, StateName, StoreError, StoredResponse, Timestamp,
};

use super::super::{
    layout::Tag,
    reply::{Reply, unexpected},
    row,
};
use crate::entry::{Claimed, Completion, Entry};

// === types ===

/// Where an entry's name stands in the outbox of its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(super) tag: Tag,
    pub(super) id: String,
}

/// Fields by name.
struct Fields(HashMap<String, Bytes>);

// === impl Sent ===

impl Sent {
    pub(crate) fn new(tag: Tag, id: String) -> Self {
        Self { tag, id }
    }
}

// === entries ===

/// Reads a whole entry that was taken here: the claim, and the completion if there is one.
pub(super) fn entry(reply: &mut Reply) -> Result<Entry, StoreError> {
    Fields::read(reply)?.entry()
}

/// The same of whatever stands there. `None`: nothing does, or it is a copy of what PostgreSQL has, or a tombstone.
pub(super) fn undrained(reply: &mut Reply) -> Result<Option<Entry>, StoreError> {
    let fields = Fields::read(reply)?;
    fields.0.contains_key("created_at").then(|| fields.entry()).transpose()
}

// === impl Fields ===

impl Fields {
    fn read(reply: &mut Reply) -> Result<Self, StoreError> {
        let mut fields = HashMap::new();
        while !reply.is_empty() {
            fields.insert(reply.text()?, reply.bytes()?);
        }
        Ok(Self(fields))
    }

    fn entry(&self) -> Result<Entry, StoreError> {
        let created_at = Timestamp::from_micros(self.number("created_at")?);
        let request = self.request()?;
        Ok(Entry {
            record: request.id.digest(),
            fence: Fence::new(self.number("fence")?),
            owner: request.owner,
            completion: self.completion()?,
            claim: Some(Claimed { request, created_at }),
        })
    }

    fn request(&self) -> Result<ClaimRequest, StoreError> {
        let mut policy = Policy::gateway(self.word("backend", Backend::parse)?);
        policy.on_abandoned = self.word("on_abandoned", OnAbandoned::parse)?;
        policy.lease = Duration::from_micros(self.number("lease")?);
        policy.retention = Duration::from_micros(self.number("retention")?);
        Ok(ClaimRequest {
            id: self.word("id", id)?,
            fingerprint: Fingerprint::from_bytes(self.get("fingerprint")?)
                .map_err(|error| damaged("fingerprint").with_source(error))?,
            owner: self.owner()?,
            operation: Operation::from_text(self.text("operation")?),
            spelling: self.word("spelling", KeySpelling::parse)?,
            policy: Arc::new(policy),
        })
    }

    fn owner(&self) -> Result<Option<Owner>, StoreError> {
        match self.get("owner")?.as_ref() {
            [] => Ok(None),
            bytes => Ok(Some(Owner::from_bytes(bytes.try_into().map_err(|_| damaged("owner"))?))),
        }
    }

    fn completion(&self) -> Result<Option<Completion>, StoreError> {
        if self.word("state", StateName::parse)? != StateName::Completed {
            return Ok(None);
        }
        let response = StoredResponse {
            status: self.number("status")?,
            headers: row::headers(self.text("headers")?, "outbox")?,
            body: self.0.get("body").cloned(),
        };
        Ok(Some(Completion {
            completed_at: Timestamp::from_micros(self.number("completed_at")?),
            expires_at: Timestamp::from_micros(self.number("expires_at")?),
            response: Arc::new(response),
        }))
    }

    fn get(&self, name: &'static str) -> Result<&Bytes, StoreError> {
        self.0.get(name).ok_or_else(|| damaged(name))
    }

    fn text(&self, name: &'static str) -> Result<&str, StoreError> {
        str::from_utf8(self.get(name)?).map_err(|error| damaged(name).with_source(error))
    }

    fn number<T: FromStr>(&self, name: &'static str) -> Result<T, StoreError> {
        self.text(name)?.parse().map_err(|_| damaged(name))
    }

    fn word<T>(&self, name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        parse(self.text(name)?).ok_or_else(|| damaged(name))
    }
}

/// Reads [`super::entry::name`].
fn id(name: &str) -> Option<RecordId> {
    let (scope, key) = name.split_once('\0')?;
    Some(RecordId::new(Scope::from_text(scope).ok()?, IdempotencyKey::new(key).ok()?))
}

fn damaged(field: &str) -> StoreError {
    unexpected("outbox").with_source(format!("its {field} cannot be read"))
}
