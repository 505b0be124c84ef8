//! get, and what concerns all tags: list, census, reap, audit.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use oncegate_core::{
    AuditEntry, Census, Filter, Reaped, Record, RecordDigest, RecordPrefix, StateName, StoreError, StoredResponse,
    Timestamp,
};
use redis::Value;

use super::{
    RedisStore,
    error::to_store_error,
    layout::Tag,
    operator,
    reply::{Reply, unexpected},
    row::{self, FIELDS, RESPONSE},
    script::{CENSUS, Call, GET, LIST, REAP},
};

// === types ===

/// What one tag holds.
#[derive(Debug, Default)]
struct Counted {
    census: Census,
    /// What a reaper would find.
    due: Reaped,
}

/// About how many records one page of a list reads, during which no claim is answered.
const PAGE: u64 = 256;

// === the verbs ===

impl RedisStore {
    pub(super) async fn read(
        &self,
        record: RecordDigest,
    ) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        let Some(mut reply) = self.fields(record, &[&FIELDS[..], &RESPONSE].concat()).await? else { return Ok(None) };
        let record = row::record(record, &mut reply)?;
        let response = row::response(&record, &mut reply)?;
        Ok(Some((record, response)))
    }

    async fn fields(&self, record: RecordDigest, fields: &[&str]) -> Result<Option<Reply>, StoreError> {
        let keys = Tag::of(record).keys_of(record, "call:none");
        let call = fields.iter().fold(Call::new(&GET, keys, self.options.now()), |call, field| call.with(*field));
        match self.ask(&call).await? {
            Value::Nil => Ok(None),
            value => Reply::of(value, GET.verb).map(Some),
        }
    }

    /// Walks the indexes page by page and keeps the oldest; then reads those.
    pub(super) async fn oldest(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let mut oldest = BTreeSet::new();
        for tags in Tag::parts_of(tags_of(filter)) {
            let walks = tags.into_iter().flat_map(|tag| states_of(filter).map(move |state| (tag, state)));
            let found = try_join_all(walks.map(|(tag, state)| self.walk(tag, state, filter))).await?;
            oldest.extend(found.into_iter().flatten());
            shorten(&mut oldest, filter.rows());
        }
        let mut records = Vec::new();
        for (_, digest) in oldest {
            // What is gone meanwhile, or in another state, is not listed.
            if let Some(mut reply) = self.fields(digest, &FIELDS).await? {
                let record = row::record(digest, &mut reply)?;
                records
                    .extend(Some(record).filter(|record| states_of(filter).any(|state| state == record.state.name())));
            }
        }
        Ok(records)
    }

    /// The oldest records of one state and tag, by birth and digest.
    async fn walk(
        &self,
        tag: Tag,
        state: StateName,
        filter: &Filter,
    ) -> Result<BTreeSet<(Timestamp, RecordDigest)>, StoreError> {
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let call = Call::new(&LIST, tag.keys_of_all(), self.options.now())
                .with(state.as_str())
                .with(&*cursor)
                .with(PAGE)
                .with(filter.abandoned)
                .with(filter.scope.is_some())
                .with(filter.scope.as_ref().map_or("", |scope| scope.as_str()))
                .with(filter.scope_part.as_deref().unwrap_or_default())
                .with(filter.key.as_ref().map_or("", |key| key.as_str()))
                .with(&*filter.prefix.as_ref().map(ToString::to_string).unwrap_or_default());
            let mut reply = Reply::of(self.ask(&call).await?, LIST.verb)?;
            cursor = reply.text()?;
            let mut page = reply.inner()?;
            while !page.is_empty() {
                let (born, digest) = (page.time()?, RecordDigest::parse(&page.text()?));
                found.insert((born, digest.ok_or_else(|| unexpected(LIST.verb))?));
            }
            shorten(&mut found, filter.rows());
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    pub(super) async fn count(&self) -> Result<Census, StoreError> {
        let mut sum = Census::default();
        for (_, Counted { census, .. }) in self.counted().await? {
            sum.in_flight += census.in_flight;
            sum.abandoned += census.abandoned;
            sum.completed += census.completed;
            sum.unknown += census.unknown;
        }
        Ok(sum)
    }

    async fn counted(&self) -> Result<Vec<(Tag, Counted)>, StoreError> {
        let mut all = Vec::new();
        for tags in Tag::parts() {
            all.extend(try_join_all(tags.into_iter().map(|tag| self.counted_in(tag))).await?);
        }
        Ok(all)
    }

    async fn counted_in(&self, tag: Tag) -> Result<(Tag, Counted), StoreError> {
        let call = Call::new(&CENSUS, tag.keys_of_all(), self.options.now()).with(self.options.cold);
        let mut reply = Reply::of(self.ask(&call).await?, CENSUS.verb)?;
        let (live, in_flight): (u64, u64) = (reply.number()?, reply.number()?);
        let abandoned = in_flight.saturating_sub(live);
        let census = Census { in_flight: live, abandoned, completed: reply.number()?, unknown: reply.number()? };
        let due = Reaped { expired: reply.number()?, doubted: reply.number()? };
        Ok((tag, Counted { census, due }))
    }

    /// Looks where something is due, and there goes one tag after the other.
    pub(super) async fn sweep(&self, rows: usize) -> Result<Reaped, StoreError> {
        let mut sum = Reaped::default();
        for (tag, Counted { due, .. }) in self.counted().await? {
            let (expired, doubted) = (rows - sum.expired, rows - sum.doubted);
            if (due.expired.min(expired), due.doubted.min(doubted)) == (0, 0) {
                continue;
            }
            let call = Call::new(&REAP, tag.keys_of_all(), self.options.now());
            let call = call.with(expired as u64).with(doubted as u64);
            let mut reply = Reply::of(self.ask(&call).await?, REAP.verb)?;
            sum.expired += reply.number::<usize>()?;
            sum.doubted += reply.number::<usize>()?;
        }
        Ok(sum)
    }

    pub(super) async fn entries(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = Filter::allowed(rows);
        let mut all = Vec::new();
        for tags in Tag::parts() {
            for entries in try_join_all(tags.into_iter().map(|tag| self.entries_of(tag, rows))).await? {
                all.extend(entries);
            }
        }
        all.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        Ok(all.into_iter().take(rows).map(|(_, entry)| entry).collect())
    }

    async fn entries_of(&self, tag: Tag, rows: usize) -> Result<Vec<(i64, AuditEntry)>, StoreError> {
        let mut command = redis::cmd("LRANGE");
        command.arg(tag.audit()).arg(0).arg(rows - 1);
        let mut reply = Reply::of(self.link.ask(&command).await.map_err(to_store_error)?, "audit")?;
        let mut entries = Vec::new();
        while !reply.is_empty() {
            entries.push(operator::entry(&reply.text()?)?);
        }
        Ok(entries)
    }
}

// === what is asked ===

fn tags_of(filter: &Filter) -> impl Iterator<Item = Tag> {
    let [first, last] = match filter.prefix.as_ref() {
        Some(prefix) => [RecordPrefix::first(prefix), RecordPrefix::last(prefix)].map(Tag::of).map(Some),
        None => [None, None],
    };
    Tag::all().filter(move |tag| first.is_none_or(|first| first <= *tag) && last.is_none_or(|last| *tag <= last))
}

fn states_of(filter: &Filter) -> impl Iterator<Item = StateName> {
    let (state, abandoned) = (filter.state, filter.abandoned);
    [StateName::InFlight, StateName::Completed, StateName::Unknown]
        .into_iter()
        .filter(move |name| state.is_none_or(|state| state == *name) && (!abandoned || *name == StateName::InFlight))
}

fn shorten<T: Ord>(set: &mut BTreeSet<T>, length_max: usize) {
    while set.len() > length_max {
        set.pop_last();
    }
}
