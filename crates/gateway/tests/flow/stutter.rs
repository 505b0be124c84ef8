//! A store that lets others run before and after each verb, so that no `await` of the flow is passed at once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use oncegate_core::{
    AuditEntry, Census, Claim, ClaimRequest, DoubtReason, Filter, Lease, Note, Owner, Reaped, Record, RecordDigest,
    Seen, Store, StoreError, StoredResponse, Written,
};
use tokio::task::yield_now;

#[derive(Debug)]
pub(crate) struct Stutter(pub(crate) Arc<dyn Store>);

async fn slowly<T>(verb: impl Future<Output = T>) -> T {
    yield_now().await;
    let done = verb.await;
    yield_now().await;
    done
}

#[async_trait]
impl Store for Stutter {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        slowly(self.0.claim(request)).await
    }

    async fn extend(&self, lease: &Lease, length: Duration) -> Result<Written, StoreError> {
        slowly(self.0.extend(lease, length)).await
    }

    async fn complete(&self, lease: &Lease, response: &StoredResponse) -> Result<Written, StoreError> {
        slowly(self.0.complete(lease, response)).await
    }

    async fn doubt(&self, lease: &Lease, reason: &DoubtReason) -> Result<Written, StoreError> {
        slowly(self.0.doubt(lease, reason)).await
    }

    async fn release(&self, lease: &Lease) -> Result<Written, StoreError> {
        slowly(self.0.release(lease)).await
    }

    async fn withdraw(&self, record: RecordDigest, owner: Owner) -> Result<Written, StoreError> {
        slowly(self.0.withdraw(record, owner)).await
    }

    async fn get(&self, record: RecordDigest) -> Result<Option<(Record, Option<StoredResponse>)>, StoreError> {
        slowly(self.0.get(record)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        slowly(self.0.list(filter)).await
    }

    async fn resolve(&self, seen: Seen, response: &StoredResponse, note: &Note) -> Result<Written, StoreError> {
        slowly(self.0.resolve(seen, response, note)).await
    }

    async fn purge(&self, seen: Seen, note: &Note) -> Result<Written, StoreError> {
        slowly(self.0.purge(seen, note)).await
    }

    async fn audit(&self, rows: usize) -> Result<Vec<AuditEntry>, StoreError> {
        slowly(self.0.audit(rows)).await
    }

    async fn reap(&self, rows: usize) -> Result<Reaped, StoreError> {
        slowly(self.0.reap(rows)).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        slowly(self.0.census()).await
    }
}
