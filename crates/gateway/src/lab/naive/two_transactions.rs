//! An in-progress state, but the key's end and the effect are two transactions: the answer is stored first.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct TwoTransactions;

#[async_trait]
impl Program for TwoTransactions {
    fn about(&self) -> &'static About {
        &About {
            implementation: "key and effect apart",
            kind: Kind::Naive,
            about: "the answer is committed, the payment is rolled back, and every repeat replays a success that never was",
            tables: "CREATE TABLE answered (key text PRIMARY KEY, state text NOT NULL)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let claim = "INSERT INTO answered (key, state) VALUES ($1, 'in progress') ON CONFLICT DO NOTHING";
        if worker.execute(claim, &[key]).await? == 0 {
            let done = worker.rows("SELECT key FROM answered WHERE key = $1 AND state = 'done'", &[key]).await?;
            return Ok(if done.is_empty() { Answer::Busy } else { Answer::Paid });
        }
        worker.execute("UPDATE answered SET state = 'done' WHERE key = $1", &[key]).await?;
        worker.run("BEGIN").await?;
        worker.pay(key).await?;
        worker.run("COMMIT").await?;
        Ok(Answer::Paid)
    }
}
