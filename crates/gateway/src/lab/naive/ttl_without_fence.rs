//! The well-known recipe: a state, a time to live, and a conditional UPDATE that takes over what has outlived it. Effect
//! and completion are one transaction, and still nothing stops the one that was taken over from.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, LEASE, Worker},
};

pub(super) struct TtlWithoutFence;

#[async_trait]
impl Program for TtlWithoutFence {
    fn about(&self) -> &'static About {
        &About {
            implementation: "state and TTL, no fence",
            kind: Kind::Naive,
            about: "a worker that was paused for longer than the TTL wakes up and pays beside the one that took over",
            tables: "CREATE TABLE recipe (key text PRIMARY KEY, state text NOT NULL, until bigint NOT NULL)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let (now, until) = (worker.now().to_string(), (worker.now() + LEASE.as_millis()).to_string());
        let claim = "INSERT INTO recipe (key, state, until) VALUES ($1, 'in progress', CAST($2 AS bigint)) \
                     ON CONFLICT DO NOTHING";
        let take_over = "UPDATE recipe SET until = CAST($1 AS bigint) \
                         WHERE key = $2 AND state = 'in progress' AND until < CAST($3 AS bigint)";
        let is_claimed = worker.execute(claim, &[key, &until]).await? == 1
            || worker.execute(take_over, &[&until, key, &now]).await? == 1;
        if !is_claimed {
            let done = worker.rows("SELECT key FROM recipe WHERE key = $1 AND state = 'done'", &[key]).await?;
            return Ok(if done.is_empty() { Answer::Busy } else { Answer::Paid });
        }
        worker.run("BEGIN").await?;
        worker.pay(key).await?;
        worker.execute("UPDATE recipe SET state = 'done' WHERE key = $1", &[key]).await?;
        worker.run("COMMIT").await?;
        Ok(Answer::Paid)
    }
}
