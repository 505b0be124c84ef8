//! The outboxes of gateways, dead or alive: names of entries, which stand in the front themselves.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use oncegate_core::StoreError;
use redis::{FromRedisValue, Value};

use super::{
    super::{
        error::to_store_error,
        layout::{self, Tag, gateways},
        reply::{Reply, unexpected},
        script::{Call, FAREWELL},
    },
    Front,
    sent::{self, Sent},
};
use crate::entry::Entry;

// === types ===

/// What a gateway has left of one record.
#[derive(Debug)]
pub(crate) struct Left {
    /// Where it stands: the claim, and the completion.
    pub(crate) places: Vec<Sent>,
    /// What it is by now. `None`: PostgreSQL has it, or its life is over.
    pub(crate) entry: Result<Option<Entry>, StoreError>,
}

/// How many places of one outbox are read at once: their entries come in one answer.
const PLACES_MAX: usize = 64;

/// The field of a place in which the entry's name stands.
const NAME: &str = "entry";

// === impl Front ===

impl Front {
    /// Says that a gateway lives, at least for so long.
    pub(crate) async fn greet(&self, gateway: &str, life: Duration) -> Result<(), StoreError> {
        // In this order: who has just forgotten it looks whether it lives after all.
        let mut alive = redis::cmd("SET");
        alive.arg(layout::alive(gateway)).arg("").arg("PX").arg(life.as_millis().to_string());
        self.tell(&alive).await?;
        let mut name = redis::cmd("SADD");
        name.arg(gateways(&self.database())).arg(gateway);
        self.tell(&name).await
    }

    /// The gateways that have not said for a while that they live.
    pub(crate) async fn dead(&self) -> Result<Vec<String>, StoreError> {
        let mut names = redis::cmd("SMEMBERS");
        names.arg(gateways(&self.database()));
        let names: Vec<String> = read(self.link.ask(&names).await)?;
        let mut dead = Vec::new();
        for name in names {
            if !self.is_alive(&name).await? {
                dead.push(name);
            }
        }
        Ok(dead)
    }

    /// What stands in the oldest places of a gateway's outbox, of one tag, behind a place; and the last of these places, if
    /// there may be more behind it.
    pub(crate) async fn left(
        &self,
        gateway: &str,
        tag: Tag,
        behind: Option<&Sent>,
    ) -> Result<(Vec<Left>, Option<Sent>), StoreError> {
        let mut range = redis::cmd("XRANGE");
        let start = behind.map_or_else(|| "-".to_owned(), |place| format!("({}", place.id));
        range.arg(tag.outbox(gateway)).arg(start).arg("+").arg("COUNT").arg(PLACES_MAX);
        let mut reply = Reply::of(self.link.ask(&range).await.map_err(to_store_error)?, "outbox")?;
        let (mut named, mut left) = (HashMap::<String, Vec<Sent>>::new(), Vec::new());
        let (mut count, mut last) = (0, None);
        while !reply.is_empty() {
            let mut item = reply.inner()?;
            let place = Sent::new(tag, item.text()?);
            (count, last) = (count + 1, Some(place.clone()));
            match item.inner().and_then(|mut fields| name(&mut fields)) {
                Ok(name) => named.entry(name).or_default().push(place),
                Err(error) => left.push(Left { places: vec![place], entry: Err(error) }),
            }
        }
        let (names, places): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let entries = self.named(&names).await;
        left.extend(places.into_iter().zip(entries).map(|(places, entry)| Left { places, entry }));
        Ok((left, last.filter(|_| count == PLACES_MAX)))
    }

    /// What stands under these names, which are of one slot.
    async fn named(&self, names: &[String]) -> Vec<Result<Option<Entry>, StoreError>> {
        let whole = |name: &String| redis::cmd("HGETALL").arg(name).to_owned();
        let mut together = redis::pipe();
        for name in names {
            together.add_command(whole(name));
        }
        let answered = match self.link.ask_together(&together).await {
            Ok(answered) => answered.into_iter().map(Ok).collect(),
            // A slot that is being moved answers for one name at a time.
            Err(_) => join_all(names.iter().map(async |name| self.link.ask(&whole(name)).await)).await,
        };
        let entry = |fields| sent::undrained(&mut Reply::of(fields, "outbox")?);
        answered.into_iter().map(|answer| answer.map_err(to_store_error).and_then(entry)).collect()
    }

    /// Takes what PostgreSQL has out of a gateway's outbox.
    pub(crate) async fn forget(&self, gateway: &str, sent: &[Sent]) -> Result<(), StoreError> {
        let mut by_tag: BTreeMap<Tag, Vec<&str>> = BTreeMap::new();
        for Sent { tag, id } in sent {
            by_tag.entry(*tag).or_default().push(id);
        }
        for tags in Tag::parts_of(by_tag.keys().copied()) {
            let commands: Vec<_> = tags.into_iter().map(|tag| forgetting(gateway, tag, &by_tag[&tag])).collect();
            try_join_all(commands.iter().map(|command| self.tell(command))).await?;
        }
        Ok(())
    }

    /// Forgets a gateway whose outbox is empty; whether it was.
    pub(crate) async fn bid_farewell(&self, gateway: &str) -> Result<bool, StoreError> {
        for tags in Tag::parts() {
            let is_empty = try_join_all(tags.into_iter().map(|tag| self.is_forgotten(gateway, tag))).await?;
            if is_empty.contains(&false) {
                return Ok(false);
            }
        }
        let mut name = redis::cmd("SREM");
        name.arg(gateways(&self.database())).arg(gateway);
        self.tell(&name).await?;
        if self.is_alive(gateway).await? {
            let mut name = redis::cmd("SADD");
            name.arg(gateways(&self.database())).arg(gateway);
            self.tell(&name).await?;
        }
        Ok(true)
    }

    async fn is_alive(&self, gateway: &str) -> Result<bool, StoreError> {
        let mut alive = redis::cmd("EXISTS");
        alive.arg(layout::alive(gateway));
        Ok(read::<u32>(self.link.ask(&alive).await)? > 0)
    }

    async fn is_forgotten(&self, gateway: &str, tag: Tag) -> Result<bool, StoreError> {
        let call = Call::new(&FAREWELL, vec![tag.outbox(gateway)], self.options.now()).with("");
        let mut reply = Reply::of(self.link.call(&call).await?, FAREWELL.verb)?;
        let _now: i64 = reply.number()?;
        Ok(reply.text()? == "1")
    }

    pub(super) async fn tell(&self, command: &redis::Cmd) -> Result<(), StoreError> {
        self.link.ask(command).await.map(drop).map_err(to_store_error)
    }
}

/// The name of an entry, as `send` of entry.lua leaves it.
fn name(fields: &mut Reply) -> Result<String, StoreError> {
    match fields.text()? {
        field if field == NAME => fields.text(),
        _ => Err(unexpected("outbox")),
    }
}

fn forgetting(gateway: &str, tag: Tag, ids: &[&str]) -> redis::Cmd {
    let mut command = redis::cmd("XDEL");
    command.arg(tag.outbox(gateway)).arg(ids);
    command
}

fn read<T: FromRedisValue>(value: Result<Value, redis::RedisError>) -> Result<T, StoreError> {
    redis::from_redis_value(value.map_err(to_store_error)?).map_err(|_| unexpected("outbox"))
}
