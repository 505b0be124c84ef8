//! The entries of an outbox, one for each record, in the order in which they came.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use oncegate_core::RecordDigest;
use tokio::time::Instant;

use super::Kept;
use crate::{entry::Entry, redis::front::Sent};

// === types ===

#[derive(Debug)]
pub(super) struct Held {
    /// For how long a claim waits for its completion.
    rest: Duration,
    entries: HashMap<RecordDigest, Place>,
    /// The records by their places: a record whose entry changes keeps its place until what was there is drained.
    order: BTreeMap<u64, RecordDigest>,
    /// The last number that was given: of a place, or of a state.
    last: u64,
    /// How many times something was drained.
    drains: u64,
}

#[derive(Debug)]
struct Place {
    place: u64,
    /// Since when the oldest of it waits, and since when it is what it is now.
    since: Instant,
    changed: Instant,
    entry: Entry,
    /// Of the state that it has now.
    number: u64,
    sent: Vec<Sent>,
    /// Somebody has locked its record in PostgreSQL: until then it is not tried again.
    postponed: Option<Instant>,
    /// Since when PostgreSQL refuses this state, and how many drains there were by then.
    refused: Option<(Instant, u64)>,
}

/// For how long.
const POSTPONED: Duration = Duration::from_secs(1);

/// For how long a claim waits for its completion at most: where a handler answers within it, both are one row that is written
/// once.
const REST_MAX: Duration = Duration::from_millis(100);

/// What part that is of the time within which PostgreSQL has to have it.
const REST_PART: u32 = 20;

/// How long an entry is refused, while others are not, before it is believed to be refused for what it is.
const REFUSED_MAX: Duration = Duration::from_secs(10);

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Perhaps nothing is written just now.
    First,
    Again,
    /// For long, and others were written.
    Alone,
}

// === impl Held ===

impl Held {
    /// What has to be drained within `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        let rest = REST_MAX.min(limit / REST_PART);
        Self { rest, entries: HashMap::new(), order: BTreeMap::new(), last: 0, drains: 0 }
    }

    pub(super) fn keep(&mut self, entry: Entry, sent: Sent) {
        let now = Instant::now();
        self.last += 1;
        let (last, record) = (self.last, entry.record);
        let Some(place) = self.entries.remove(&record) else {
            let place = Place {
                place: last,
                since: now,
                changed: now,
                entry,
                number: last,
                sent: vec![sent],
                postponed: None,
                refused: None,
            };
            self.order.insert(last, record);
            self.entries.insert(record, place);
            return;
        };
        let mut place = Place { entry: place.entry.merged(entry), changed: now, number: last, refused: None, ..place };
        place.sent.push(sent);
        self.entries.insert(record, place);
    }

    pub(super) fn of(&self, record: RecordDigest) -> Option<Kept> {
        self.entries.get(&record).map(Place::kept)
    }

    /// The oldest ones that are due, at most so many.
    pub(super) fn oldest(&self, count: usize) -> Vec<Kept> {
        let now = Instant::now();
        let places = self.order.values().filter_map(|record| self.entries.get(record));
        places
            .filter(|place| !place.rests(self.rest, now) && !place.is_postponed(now))
            .take(count)
            .map(Place::kept)
            .collect()
    }

    /// Whether a claim still waits for its completion.
    pub(super) fn has_resting(&self) -> bool {
        let now = Instant::now();
        self.entries.values().any(|place| place.rests(self.rest, now))
    }

    pub(super) fn postpone(&mut self, record: RecordDigest) {
        if let Some(place) = self.entries.get_mut(&record) {
            place.postponed = Some(Instant::now() + POSTPONED);
        }
    }

    /// PostgreSQL could not be asked about it, so nobody knows whether its record is still locked.
    pub(super) fn failed(&mut self, record: RecordDigest) {
        if let Some(place) = self.entries.get_mut(&record) {
            place.postponed = None;
        }
    }

    /// PostgreSQL has refused a state of a record.
    pub(super) fn refused(&mut self, record: RecordDigest, number: u64) -> Refused {
        let drains = self.drains;
        let Some(place) = self.entries.get_mut(&record).filter(|place| place.number == number) else {
            return Refused::Again;
        };
        match place.refused {
            None => {
                place.refused = Some((Instant::now(), drains));
                Refused::First
            }
            Some((since, before)) if since.elapsed() >= REFUSED_MAX && before < drains => Refused::Alone,
            Some(_) => Refused::Again,
        }
    }

    pub(super) fn applied(&mut self, record: RecordDigest, number: u64) -> Vec<Sent> {
        let Some(mut place) = self.entries.remove(&record) else { return Vec::new() };
        self.order.remove(&place.place);
        self.drains += 1;
        place.postponed = None;
        if place.number == number {
            return place.sent;
        }
        // What came meanwhile has the place that it would have had alone: whoever waits for all up to it waits for it too.
        (place.place, place.since) = (place.number, place.changed);
        self.order.insert(place.place, record);
        self.entries.insert(record, place);
        Vec::new()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has_claims(&self) -> bool {
        self.entries.values().any(|place| place.entry.claim.is_some())
    }

    /// How long the oldest has waited, but for those of which PostgreSQL has said that they must.
    pub(super) fn lag(&self) -> Duration {
        let mut places = self.order.values().filter_map(|record| self.entries.get(record));
        places.find(|place| place.postponed.is_none()).map_or(Duration::ZERO, |place| place.since.elapsed())
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The last number up to which nothing is left.
    pub(super) fn drained(&self) -> u64 {
        self.order.keys().next().map_or(self.last, |first| first - 1)
    }
}

// === impl Place ===

impl Place {
    fn kept(&self) -> Kept {
        Kept { entry: self.entry.clone(), number: self.number }
    }

    fn rests(&self, rest: Duration, now: Instant) -> bool {
        self.entry.completion.is_none() && now < self.since + rest
    }

    fn is_postponed(&self, now: Instant) -> bool {
        self.postponed.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncegate_core::{Fence, IdempotencyKey, RecordId, Scope, StoredResponse, Timestamp};

    use super::*;
    use crate::{entry::Completion, redis::front::Tag};

    const LIMIT: Duration = Duration::from_secs(1);

    fn keep(held: &mut Held, key: &str) -> RecordDigest {
        let record = RecordId::new(Scope::anonymous(), IdempotencyKey::new(key).unwrap()).digest();
        held.keep(entry(record, None), Sent::new(Tag::of(record), key.to_owned()));
        record
    }

    fn complete(held: &mut Held, record: RecordDigest) {
        let response = Arc::new(StoredResponse { status: 201, headers: Vec::new(), body: None });
        let [completed_at, expires_at] = [0, 1].map(Timestamp::from_micros);
        let completion = Completion { completed_at, expires_at, response };
        held.keep(entry(record, Some(completion)), Sent::new(Tag::of(record), "completion".to_owned()));
    }

    fn entry(record: RecordDigest, completion: Option<Completion>) -> Entry {
        Entry { record, fence: Fence::new(1), owner: None, claim: None, completion }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_waits_for_its_completion_and_not_for_long() {
        let mut held = Held::new(LIMIT);
        let [record, other] = ["k", "other"].map(|key| keep(&mut held, key));
        assert!(held.oldest(9).is_empty() && held.has_resting());
        complete(&mut held, record);
        let due = held.oldest(9);
        assert_eq!(due.iter().map(|kept| kept.entry.record).collect::<Vec<_>>(), [record]);
        held.applied(record, due[0].number);
        tokio::time::advance(LIMIT / REST_PART).await;
        assert!(!held.has_resting());
        assert_eq!(held.oldest(9)[0].entry.record, other);
    }

    #[test]
    fn what_comes_while_its_record_is_drained_is_waited_for() {
        let mut held = Held::new(LIMIT);
        let record = keep(&mut held, "k");
        let draining = held.of(record).unwrap().number;
        keep(&mut held, "k");
        let last = held.last();
        assert!(held.applied(record, draining).is_empty());
        assert!(held.drained() < last);
        let number = held.of(record).unwrap().number;
        assert_eq!(held.applied(record, number).len(), 2);
        assert_eq!(held.drained(), last);
    }
}
