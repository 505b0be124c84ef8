//! The SQL functions: a claim of its own, then effect and completion in one transaction.

use async_trait::async_trait;

use super::COMPLETE;
use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, LEASE, Worker},
};

pub(super) struct SqlClaim;

const CLAIM: &str = "SELECT outcome, CAST(record AS text), CAST(fence AS text) FROM oncegate.claim('lab', $1, \
                     sha256(convert_to($1, 'UTF8')), lease => CAST($2 AS interval))";

/// What `oncegate.complete` raises in a transaction that must not commit: somebody took over.
const TAKEN_OVER: &str = "OG001";

#[async_trait]
impl Program for SqlClaim {
    fn about(&self) -> &'static About {
        &About {
            implementation: "SQL: claim, complete",
            kind: Kind::Oncegate,
            about: "transactional: at most one transaction per key commits, whatever dies or stalls",
            tables: "",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let lease = format!("{} milliseconds", LEASE.as_millis());
        let claimed = worker.rows(CLAIM, &[key, &lease]).await?;
        match claimed.first().map(Vec::as_slice) {
            Some([Some(outcome), Some(record), Some(fence)]) if outcome == "acquired" => {
                pay_and_complete(worker, key, &[record, fence]).await
            }
            Some([Some(outcome), ..]) if outcome == "completed" => Ok(Answer::Paid),
            _ => Ok(Answer::Busy),
        }
    }
}

async fn pay_and_complete(worker: &Worker<'_>, key: &str, lease: &[&str; 2]) -> Result<Answer, Interrupted> {
    worker.run("BEGIN").await?;
    worker.pay(key).await?;
    match worker.rows(COMPLETE, lease).await {
        Ok(_) => {
            worker.run("COMMIT").await?;
            Ok(Answer::Paid)
        }
        Err(refusal) if refusal.code == TAKEN_OVER => {
            worker.run("ROLLBACK").await?;
            Ok(Answer::Busy)
        }
        Err(refusal) => Err(refusal.into()),
    }
}
