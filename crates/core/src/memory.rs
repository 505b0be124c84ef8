//! The store that runs the specification itself.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;

use crate::{
    AuditEntry, Census, Claim, ClaimRequest, Clock, Completed, Decision, DoubtReason, Doubted, ErrorKind, Fence,
    Filter, Lease, Note, OnAbandoned, OperatorVerb, Owner, Reaped, Record, RecordDigest, Seen, State, StateName, Store,
    StoreError, StoredResponse, SystemClock, Timestamp, Written, decide,
};

// === types ===

/// Records in the memory of one process: for tests, and for services that have exactly one process
/// and accept that a restart forgets every key.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    records_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    rows: HashMap<RecordDigest, Row>,
    last_fence: i64,
    /// The latest last.
    audit: VecDeque<AuditEntry>,
}

#[derive(Debug)]
struct Row {
    record: Record,
    response: Option<Arc<StoredResponse>>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// Full at this many records; new keys are then refused, and nothing in flight is ever evicted.
    pub const RECORDS_MAX: usize = 100_000;
    /// How many entries of the audit are kept; older ones make room.
    pub const AUDIT_MAX: usize = 10_000;

    /// A store for a service of exactly one process. Two processes would each keep their own, and
    /// one key would execute in both.
    #[must_use]
    pub fn single_process() -> Self {
        Self::with_clock(SystemClock)
    }

    /// A store that asks `clock`.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), records_max: Self::RECORDS_MAX, table: Mutex::default() }
    }

    /// Sets how many records it may hold.
    #[must_use]
    pub fn with_records_max(self, records_max: usize) -> Self {
        Self { records_max, ..self }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every verb leaves the table whole before it can panic, so a poisoned lock is still sound.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let digest = request.id.digest();
        let row = table.rows.get(&digest);
        if row.is_some_and(|row| row.record.id != request.id) {
            return Err(StoreError::new(ErrorKind::Collision, format!("record {digest} belongs to another key")));
        }
        match decide(row.map(|row| &row.record), request, now) {
            Decision::Answer(claim) => Ok(claim),
            Decision::Replay { completed_at, expires_at, expires_in } => {
                let response = row.and_then(|row| row.response.clone());
                let response = response.ok_or_else(|| missing_response(digest))?;
                Ok(Claim::Completed(Completed { response, completed_at, expires_at, expires_in }))
            }
            Decision::Acquire { attempt, lease } => {
                if row.is_none() && table.rows.len() >= self.records_max {
                    table.make_room(self.records_max, now)?;
                }
                Ok(Claim::Acquired(table.acquire(request, (attempt, lease), now)))
            }
            Decision::Doubt(reason) => {
                if let Some(row) = table.rows.get_mut(&digest) {
                    row.record = row.record.doubted(reason.clone(), now);
                }
                Ok(Claim::Unknown(Doubted { reason, since: now }))
            }
        }
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let Some(row) = table.leased(lease, &[StateName::InFlight], now) else { return Ok(Written::Stale) };
        row.record.state = State::InFlight { lease_until: now.after(length) };
        row.record.expires_at = now.after(row.record.retention.max(length));
        Ok(Written::Done)
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        if lease.owner.is_some() && table.leased(lease, &[StateName::Completed], now).is_some() {
            return Ok(Written::Done);
        }
        let states = [StateName::InFlight, StateName::Unknown];
        let Some(row) = table.leased(lease, &states, now) else { return Ok(Written::Stale) };
        row.record.state = State::Completed { completed_at: now, status: response.status };
        row.record.expires_at = now.after(row.record.retention);
        row.response = Some(Arc::new(response.clone()));
        Ok(Written::Done)
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let Some(row) = table.leased(lease, &[StateName::InFlight], now) else { return Ok(Written::Stale) };
        row.record = row.record.doubted(reason.clone(), now);
        Ok(Written::Done)
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let released = table.leased(lease, &[StateName::InFlight], now).is_some();
        Ok(table.give_back_if(released, lease.record, now))
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let withdrawn = table
            .living(record, now)
            .is_some_and(|row| row.record.owner == Some(owner) && row.record.state.name() != StateName::Completed);
        Ok(table.give_back_if(withdrawn, record, now))
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let row = table.living(record, now);
        Ok(row.map(|row| (row.record.clone(), row.response.as_deref().cloned())))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let now = self.clock.now();
        let table = self.table();
        let living = table.rows.values().map(|row| &row.record).filter(|record| !record.is_expired(now));
        let mut records: Vec<_> = living.filter(|record| filter.matches(record, now)).cloned().collect();
        records.sort_by_key(|record| (record.created_at, record.id.digest()));
        records.truncate(filter.rows());
        Ok(records)
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let resolved = table.seen(seen, now).filter(|_| OperatorVerb::Resolve.leaves(seen.state));
        let Some(row) = resolved else { return Ok(Written::Stale) };
        row.record.state = State::Completed { completed_at: now, status: response.status };
        row.record.expires_at = now.after(row.record.retention);
        row.record.owner = None;
        row.response = Some(Arc::new(response.clone()));
        let (verb, operation, status) = (OperatorVerb::Resolve, row.record.operation.clone(), Some(response.status));
        table.note(AuditEntry { at: now, verb, seen, operation, status, note: note.clone() });
        Ok(Written::Done)
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let is_live = |row: &Row| matches!(row.record.state, State::InFlight { lease_until } if now < lease_until);
        let purged = table.seen(seen, now).filter(|row| note.force || !is_live(row));
        let Some(row) = purged else { return Ok(Written::Stale) };
        let (verb, operation) = (OperatorVerb::deleting(seen.state), row.record.operation.clone());
        table.rows.remove(&seen.record);
        table.note(AuditEntry { at: now, verb, seen, operation, status: None, note: note.clone() });
        Ok(Written::Done)
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.table().audit.iter().rev().take(Filter::allowed(rows)).cloned().collect())
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        let now = self.clock.now();
        let mut table = self.table();
        let expired = table.reap_expired(rows, now);
        // What expired but is left for the next batch must not come back to life as unknown.
        let forbidden = |record: &Record| {
            !record.is_expired(now) && record.is_abandoned(now) && record.on_abandoned == OnAbandoned::Unknown
        };
        let abandoned = table.rows.values_mut().filter(|row| forbidden(&row.record)).take(rows);
        let doubt = |row: &mut Row| row.record = row.record.doubted(DoubtReason::WORKER_DIED, now);
        let doubted = abandoned.map(doubt).count();
        Ok(Reaped { expired, doubted })
    }

    async fn census(&self) -> Result<Census, StoreError> {
        let now = self.clock.now();
        let mut census = Census::default();
        for Row { record, .. } in self.table().rows.values().filter(|row| !row.record.is_expired(now)) {
            match record.state {
                State::InFlight { lease_until } if now < lease_until => census.in_flight += 1,
                State::InFlight { .. } => census.abandoned += 1,
                State::Completed { .. } => census.completed += 1,
                State::Unknown { .. } => census.unknown += 1,
            }
        }
        Ok(census)
    }
}

fn missing_response(digest: RecordDigest) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("record {digest} is completed but has no response"))
}

// === impl Table ===

impl Table {
    fn living(&mut self, record: RecordDigest, now: Timestamp) -> Option<&mut Row> {
        self.rows.get_mut(&record).filter(|row| !row.record.is_expired(now))
    }

    /// The row that a write under this lease may change.
    fn leased(&mut self, lease: &Lease, states: &[StateName], now: Timestamp) -> Option<&mut Row> {
        self.living(lease.record, now).filter(|row| {
            row.record.fence == lease.fence
                && (lease.owner.is_none() || lease.owner == row.record.owner)
                && states.contains(&row.record.state.name())
        })
    }

    /// The row, if it still is what an operator saw.
    fn seen(&mut self, seen: Seen, now: Timestamp) -> Option<&mut Row> {
        self.living(seen.record, now).filter(|row| seen.is_still(&row.record))
    }

    fn note(&mut self, entry: AuditEntry) {
        if self.audit.len() == MemoryStore::AUDIT_MAX {
            self.audit.pop_front();
        }
        self.audit.push_back(entry);
    }

    fn acquire(&mut self, request: &ClaimRequest, terms: (u32, Duration), now: Timestamp) -> Lease {
        let fence = self.next_fence();
        let digest = request.id.digest();
        let previous = self.rows.get(&digest).map(|row| &row.record);
        let record = Record::acquired(request, previous, fence, terms, now);
        let lease = record.leased(record.lease);
        self.rows.insert(digest, Row { record, response: None });
        lease
    }

    fn next_fence(&mut self) -> Fence {
        self.last_fence += 1;
        Fence::new(self.last_fence)
    }

    fn give_back_if(&mut self, allowed: bool, record: RecordDigest, now: Timestamp) -> Written {
        if !allowed {
            return Written::Stale;
        }
        let fence = self.next_fence();
        if let Some(row) = self.rows.remove(&record)
            && let Some(abandoned) = row.record.given_back(fence, now)
        {
            self.rows.insert(record, Row { record: abandoned, response: None });
        }
        Written::Done
    }

    fn reap_expired(&mut self, rows: usize, now: Timestamp) -> usize {
        let expired = self.rows.iter().filter(|(_, row)| row.record.is_expired(now));
        let expired: Vec<_> = expired.map(|(digest, _)| *digest).take(rows).collect();
        expired.iter().for_each(|digest| drop(self.rows.remove(digest)));
        expired.len()
    }

    fn make_room(&mut self, records_max: usize, now: Timestamp) -> Result<(), StoreError> {
        match self.reap_expired(records_max, now) {
            0 => Err(StoreError::new(ErrorKind::Full, format!("the store holds {records_max} records, its limit"))),
            1.. => Ok(()),
        }
    }
}
