//! What one transaction carries: for each verb that was asked, one statement.

use std::{
    any::TypeId,
    collections::{HashMap, HashSet},
};

use oncegate_core::{ErrorKind, RecordDigest, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    value::{Span, digest},
    verb::{Job, Pending, Statement, Told, Unsettled, Verb},
};

// === types ===

/// Verbs on different records, to be carried out together.
#[derive(Default)]
pub(super) struct Batch {
    groups: HashMap<TypeId, Box<dyn Group>>,
    records: HashSet<RecordDigest>,
    bytes: usize,
}

/// The part of a batch that is of one verb.
pub(super) trait Group: Send + Sync {
    /// Takes a job of the same verb.
    fn add(&mut self, job: Box<dyn Job>);
    /// Puts the rows in the order of their records and notes that they are sent.
    fn prepare(&mut self);
    /// The statement for all of it.
    fn statement(&self, offset: Span) -> Statement<'_>;
    /// Tells each caller what the rows say; returns what is to be asked again.
    fn settle(self: Box<Self>, rows: &[Row]) -> Vec<Box<dyn Job>>;
    /// After a transaction that was rolled back for the sake of others; returns what is to be asked again.
    fn again(self: Box<Self>) -> Vec<Box<dyn Job>>;
    /// After the connection was lost; returns what is to be asked again.
    fn after_loss(self: Box<Self>, error: &dyn Fn() -> StoreError) -> Vec<Box<dyn Job>>;
    /// Its jobs, one by one.
    fn jobs(self: Box<Self>) -> Vec<Box<dyn Job>>;
}

/// The only [`Group`].
pub(super) struct Like<V: Verb>(Vec<Pending<V>>);

// === impl Batch ===

impl Batch {
    /// Takes a job, unless the batch has one of the same record: two in one statement would not see each other.
    pub(super) fn add(&mut self, job: Box<dyn Job>) -> Result<(), Box<dyn Job>> {
        if !self.records.insert(job.record()) {
            return Err(job);
        }
        self.bytes += job.bytes();
        let verb = (*job).type_id();
        match self.groups.get_mut(&verb) {
            Some(group) => group.add(job),
            None => drop(self.groups.insert(verb, job.group())),
        }
        Ok(())
    }

    /// How many verbs it has.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many bytes of payload it has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its groups, ready to be sent.
    pub(super) fn into_groups(self) -> Vec<Box<dyn Group>> {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.prepare());
        groups
    }

    /// A batch of these jobs, which are of different records.
    pub(super) fn of(jobs: impl IntoIterator<Item = Box<dyn Job>>) -> Self {
        let mut batch = Self::default();
        for job in jobs {
            let added = batch.add(job);
            debug_assert!(added.is_ok(), "they came from one batch");
        }
        batch
    }
}

// === impl Like ===

impl<V: Verb> Like<V> {
    pub(super) fn of(job: Pending<V>) -> Self {
        Self(vec![job])
    }

    /// What the rows say of each verb.
    fn told(&self, rows: &[Row]) -> Vec<Option<Result<Told<V::Answer>, StoreError>>> {
        let mut told: Vec<_> = self.0.iter().map(|_| None).collect();
        for row in rows {
            let Ok(record) = row.try_get::<_, Uuid>("record").map(digest) else { continue };
            let Ok(index) = self.0.binary_search_by_key(&record, |job| job.verb().record()) else { continue };
            let said = self.0[index].verb().read(row);
            // A record can have a row that says it raced and another with its answer.
            if told[index].is_none() || !matches!(said, Ok(Told::Raced)) {
                told[index] = Some(said);
            }
        }
        told
    }
}

impl<V: Verb> Group for Like<V> {
    fn add(&mut self, job: Box<dyn Job>) {
        match job.into_any().downcast::<Pending<V>>() {
            Ok(job) => self.0.push(*job),
            Err(_) => unreachable!("groups are found by the type of their jobs"),
        }
    }

    fn prepare(&mut self) {
        self.0.sort_unstable_by_key(|job| job.verb().record());
        self.0.iter_mut().for_each(Pending::sent);
    }

    fn statement(&self, offset: Span) -> Statement<'_> {
        let verbs: Vec<&V> = self.0.iter().map(Pending::verb).collect();
        Statement::of(&verbs, offset)
    }

    fn settle(self: Box<Self>, rows: &[Row]) -> Vec<Box<dyn Job>> {
        let told = self.told(rows);
        let mut again = Vec::new();
        for (job, told) in self.0.into_iter().zip(told) {
            match told {
                Some(Ok(Told::Answer(answer))) => job.answer(Ok(answer)),
                Some(Ok(Told::Raced)) => again.extend(job.again(Unsettled::Raced)),
                Some(Err(error)) => job.answer(Err(error)),
                None => again.extend(job.again(Unsettled::Held)),
            }
        }
        again
    }

    fn again(self: Box<Self>) -> Vec<Box<dyn Job>> {
        self.0.into_iter().filter_map(|job| job.again(Unsettled::RolledBack)).collect()
    }

    fn after_loss(self: Box<Self>, error: &dyn Fn() -> StoreError) -> Vec<Box<dyn Job>> {
        self.0.into_iter().filter_map(|job| job.after_loss(error())).collect()
    }

    fn jobs(self: Box<Self>) -> Vec<Box<dyn Job>> {
        self.0.into_iter().map(|job| Box::new(job) as Box<dyn Job>).collect()
    }
}

/// What a record's row says that cannot be read.
pub(super) fn corrupt(record: RecordDigest, what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("record {record} is damaged: its {what} cannot be read"))
}
