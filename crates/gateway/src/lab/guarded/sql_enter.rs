//! The SQL functions in their advisory form: lock, record, effect and answer in one transaction.

use async_trait::async_trait;

use super::COMPLETE;
use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct SqlEnter;

const ENTER: &str = "SELECT outcome, CAST(record AS text), CAST(fence AS text) \
                     FROM oncegate.enter('lab-enter', $1, sha256(convert_to($1, 'UTF8')))";

#[async_trait]
impl Program for SqlEnter {
    fn about(&self) -> &'static About {
        &About {
            implementation: "SQL: enter, complete",
            kind: Kind::Oncegate,
            about: "transactional in one commit: a crash leaves nothing behind",
            tables: "",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        worker.run("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let entered = worker.rows(ENTER, &[key]).await?;
        match entered.first().map(Vec::as_slice) {
            Some([Some(outcome), Some(record), Some(fence)]) if outcome == "acquired" => {
                worker.pay(key).await?;
                worker.rows(COMPLETE, &[record, fence]).await?;
                worker.run("COMMIT").await?;
                Ok(Answer::Paid)
            }
            other => {
                let is_completed = matches!(other, Some([Some(outcome), ..]) if outcome == "completed");
                worker.run("ROLLBACK").await?;
                Ok(if is_completed { Answer::Paid } else { Answer::Busy })
            }
        }
    }
}
