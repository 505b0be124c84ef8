//! What a front acknowledges before PostgreSQL has it: claims and completions that are taken here, and the streams in which
//! each gateway leaves them for the others should it die.

use std::time::Duration;

use futures_util::future::try_join_all;
use oncegate_core::{ClaimRequest, ErrorKind, Fence, Owner, RecordDigest, StoreError, StoredResponse, Timestamp};
use uuid::Uuid;

use super::{
    super::{
        layout::Tag,
        reply::{Reply, unexpected},
        script::{Call, FINISH, OPEN, SETTLE, TAKE},
        write::with_response,
    },
    Front, Look, TRUST,
    sent::{self, Sent},
};
use crate::entry::Entry;

// === types ===

/// A claim that the front is to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take<'a> {
    pub(crate) look: &'a Look,
    pub(crate) request: &'a ClaimRequest,
    /// What the front must hold as well.
    pub(crate) sentinel: Uuid,
    /// Nothing up to this fence counts any more.
    pub(crate) buried: Option<Fence>,
    pub(crate) fence: Fence,
    pub(crate) created_at: Timestamp,
    /// Whose outbox it goes to.
    pub(crate) gateway: &'a str,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The caller executes.
    Here(Sent),
    /// The token is gone: look again.
    Gone,
    /// The fence is not the largest of this record: draw again.
    Small,
    /// The front may have lost what it acknowledged.
    Cold,
    /// Somebody else's stands there, and PostgreSQL does not have it yet.
    Held(Box<Entry>),
}

/// A completion that the front is to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finish<'a> {
    pub(crate) generation: &'a str,
    pub(crate) record: RecordDigest,
    pub(crate) fence: Fence,
    pub(crate) owner: Owner,
    /// For how long the lease must go on, so that PostgreSQL knows of the completion before anybody takes over.
    pub(crate) limit: Duration,
    /// By [`Front::clock`].
    pub(crate) asked: i64,
    pub(crate) completed_at: Timestamp,
    pub(crate) response: &'a StoredResponse,
    pub(crate) gateway: &'a str,
}

// === impl Front ===

impl Front {
    /// Takes a claim, if the token still stands and nothing was lost since the outbox was opened.
    pub(crate) async fn take(&self, take: Take<'_>) -> Result<Taken, StoreError> {
        let Take { look, request, .. } = take;
        let (tag, policy, database) = (Tag::of(look.record), &request.policy, self.database());
        let keys = vec![tag.front(&database, look.record), tag.sentinel(&database), tag.outbox(take.gateway)];
        let call = Call::new(&TAKE, keys, self.options.now())
            .with(&*look.generation)
            .with(TRUST)
            .with(&look.token.as_bytes()[..])
            .with(&*take.sentinel.to_string());
        let call = match take.buried {
            Some(fence) => call.with(fence.get()),
            None => call.with(""),
        };
        let call = call
            .with(take.fence.get())
            .with(&*super::entry::name(request))
            .with(request.fingerprint.as_bytes())
            .with(request.owner.as_ref().map_or(&[][..], |owner| Owner::as_bytes(owner)))
            .with(request.operation.as_str())
            .with(request.spelling.as_str())
            .with(policy.backend.as_str())
            .with(policy.on_abandoned.as_str())
            .with(policy.lease)
            .with(policy.retention)
            .with(take.created_at.as_micros());
        let mut reply = self.ask(look.record, &call).await?;
        match &*reply.text()? {
            "taken" => Ok(Taken::Here(Sent::new(tag, reply.text()?))),
            "gone" => Ok(Taken::Gone),
            "small" => Ok(Taken::Small),
            "cold" => Ok(Taken::Cold),
            "held" => Ok(Taken::Held(Box::new(sent::entry(&mut reply.inner()?)?))),
            _ => Err(unexpected(TAKE.verb)),
        }
    }

    /// Takes a completion, and says for how long the record lives from then on; `None`: PostgreSQL has to write it.
    pub(crate) async fn finish(&self, finish: Finish<'_>) -> Result<Option<(Sent, Duration)>, StoreError> {
        let tag = Tag::of(finish.record);
        let keys = vec![tag.front(&self.database(), finish.record), tag.outbox(finish.gateway)];
        let call = Call::new(&FINISH, keys, self.options.now())
            .with(finish.generation)
            .with(finish.fence.get())
            .with(&finish.owner.as_bytes()[..])
            .with(finish.limit)
            .with(finish.asked)
            .with(finish.completed_at.as_micros());
        let mut reply = self.ask(finish.record, &with_response(call, finish.response)).await?;
        match &*reply.text()? {
            "done" => Ok(Some((Sent::new(tag, reply.text()?), reply.duration()?))),
            "back" => Ok(None),
            _ => Err(unexpected(FINISH.verb)),
        }
    }

    /// What was taken here of a record. With `closing`, PostgreSQL alone writes it from now on.
    pub(crate) async fn settle(
        &self,
        generation: &str,
        record: RecordDigest,
        closing: bool,
    ) -> Result<Option<Entry>, StoreError> {
        let call = self.call(&SETTLE, record, generation).with(closing);
        let mut reply = self.ask(record, &call).await?.inner()?;
        if reply.is_empty() {
            return Ok(None);
        }
        sent::entry(&mut reply).map(Some)
    }

    /// Gives every tag what it has to hold as long as its data are whole.
    ///
    /// # Errors
    /// Also where a server does not say whose data it has: what it lost could not be missed.
    pub(crate) async fn open_outbox(&self, generation: &str, sentinel: Uuid) -> Result<(), StoreError> {
        let (sentinel, database) = (sentinel.to_string(), self.database());
        let open = async |tag: Tag| {
            let call = Call::new(&OPEN, vec![tag.sentinel(&database)], self.options.now());
            let call = call.with(generation).with(&*sentinel);
            let mut reply = Reply::of(self.link.call(&call).await?, OPEN.verb)?;
            let _now: i64 = reply.number()?;
            if reply.text()?.is_empty() {
                let text = "the front has no replication id: it cannot have an outbox";
                return Err(StoreError::new(ErrorKind::Unavailable, text));
            }
            Ok(())
        };
        for tags in Tag::parts() {
            try_join_all(tags.into_iter().map(&open)).await?;
        }
        Ok(())
    }

    /// Takes from every tag what it was given.
    pub(crate) async fn close_outbox(&self) -> Result<(), StoreError> {
        let database = self.database();
        let close = async |tag: Tag| {
            let mut command = redis::cmd("DEL");
            command.arg(tag.sentinel(&database));
            self.tell(&command).await
        };
        for tags in Tag::parts() {
            try_join_all(tags.into_iter().map(&close)).await?;
        }
        Ok(())
    }
}
