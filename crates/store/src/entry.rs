//! What a front has acknowledged and PostgreSQL may not have yet.

use std::sync::Arc;

use oncegate_core::{ClaimRequest, Fence, Owner, RecordDigest, StoredResponse, Timestamp};

// === types ===

/// One state of one record: its claim, or its completion. Of two of one record the larger (fence, rank) counts, where a
/// claim ranks below its completion, so that it does not matter in which order they come, or how often.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) record: RecordDigest,
    pub(crate) fence: Fence,
    pub(crate) owner: Option<Owner>,
    /// `None`: PostgreSQL has it already.
    pub(crate) claim: Option<Claimed>,
    /// `None`: it is in flight.
    pub(crate) completion: Option<Completion>,
}

/// A claim that a front has taken.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    pub(crate) request: ClaimRequest,
    /// By PostgreSQL's clock, as every time here: lease and retention count from it.
    pub(crate) created_at: Timestamp,
}

/// A completion that a front has taken.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) completed_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) response: Arc<StoredResponse>,
}

// === impl Entry ===

impl Entry {
    /// What counts of two entries of one record. Of two that rank alike the first came first.
    pub(crate) fn merged(self, other: Self) -> Self {
        let (newer, older) = if self.rank() >= other.rank() { (self, other) } else { (other, self) };
        let claim = match newer.claim {
            // A completion needs the claim that it belongs to, and no other.
            None if newer.fence == older.fence => older.claim,
            claim => claim,
        };
        Self { claim, ..newer }
    }

    /// Roughly how many bytes it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.completion.as_ref().map_or(0, |completion| completion.response.held_bytes())
    }

    fn rank(&self) -> (Fence, bool) {
        (self.fence, self.completion.is_some())
    }
}

#[cfg(test)]
mod tests {
    use oncegate_core::{Backend, Fingerprint, IdempotencyKey, KeySpelling, Operation, Policy, RecordId, Scope};

    use super::*;

    fn entries() -> Vec<Entry> {
        let request = ClaimRequest {
            id: RecordId::new(Scope::anonymous(), IdempotencyKey::new("k").unwrap()),
            fingerprint: Fingerprint::from_bytes(&[1]).unwrap(),
            owner: None,
            operation: Operation::new("POST", "/"),
            spelling: KeySpelling::Bare,
            policy: Arc::new(Policy::gateway(Backend::Plain)),
        };
        let at = Timestamp::from_micros(0);
        let response = Arc::new(StoredResponse { status: 201, headers: Vec::new(), body: None });
        let entry = |fence, is_claim: bool, is_completed: bool| Entry {
            record: request.id.digest(),
            fence: Fence::new(fence),
            owner: None,
            claim: is_claim.then(|| Claimed { request: request.clone(), created_at: at }),
            completion: is_completed.then(|| Completion {
                completed_at: at,
                expires_at: at,
                response: Arc::clone(&response),
            }),
        };
        vec![entry(1, true, false), entry(1, false, true), entry(2, true, false), entry(2, false, true)]
    }

    #[test]
    fn the_largest_fence_and_rank_count_in_whatever_order_they_come() {
        let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..4 {
            let longer = |order: &Vec<usize>| {
                let order = order.clone();
                (0..4).filter(move |next| !order.contains(next)).collect::<Vec<_>>()
            };
            orders = orders
                .iter()
                .flat_map(|order| longer(order).into_iter().map(|next| [&order[..], &[next]].concat()))
                .collect();
        }
        assert_eq!(orders.len(), 24);
        for order in orders {
            let entries = entries();
            let merged = order.iter().map(|&index| entries[index].clone()).reduce(Entry::merged).unwrap();
            assert_eq!(merged.fence, Fence::new(2), "{order:?}");
            assert!(merged.completion.is_some(), "{order:?}");
        }
    }

    #[test]
    fn a_completion_keeps_the_claim_that_it_belongs_to_and_no_other() {
        let [first, completed, second, _] = <[Entry; 4]>::try_from(entries()).unwrap();
        assert!(completed.clone().merged(first.clone()).claim.is_some());
        assert!(first.merged(completed.clone()).claim.is_some());
        let other = Entry { fence: Fence::new(0), ..second };
        assert!(completed.merged(other).claim.is_none());
    }
}
