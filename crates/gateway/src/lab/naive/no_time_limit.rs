//! An in-progress state, and effect and completion in one transaction; but the state ends only when its worker ends it.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct NoTimeLimit;

#[async_trait]
impl Program for NoTimeLimit {
    fn about(&self) -> &'static About {
        &About {
            implementation: "in progress for ever",
            kind: Kind::Naive,
            about: "a worker that dies leaves its key in progress: every repeat gets 409, and nobody ever pays",
            tables: "CREATE TABLE progress (key text PRIMARY KEY, state text NOT NULL)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let claim = "INSERT INTO progress (key, state) VALUES ($1, 'in progress') ON CONFLICT DO NOTHING";
        if worker.execute(claim, &[key]).await? == 0 {
            let done = worker.rows("SELECT key FROM progress WHERE key = $1 AND state = 'done'", &[key]).await?;
            return Ok(if done.is_empty() { Answer::Busy } else { Answer::Paid });
        }
        worker.run("BEGIN").await?;
        worker.pay(key).await?;
        worker.execute("UPDATE progress SET state = 'done' WHERE key = $1", &[key]).await?;
        worker.run("COMMIT").await?;
        Ok(Answer::Paid)
    }
}
