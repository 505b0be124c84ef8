//! Lock the key's row, so that repeats wait; but at first there is no row, and nothing to lock.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct SelectForUpdate;

#[async_trait]
impl Program for SelectForUpdate {
    fn about(&self) -> &'static About {
        &About {
            implementation: "SELECT … FOR UPDATE",
            kind: Kind::Naive,
            about: "a row that is not there cannot be locked: the first repeats all pay",
            tables: "CREATE TABLE locked (key text PRIMARY KEY)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        worker.run("BEGIN").await?;
        let seen = worker.rows("SELECT key FROM locked WHERE key = $1 FOR UPDATE", &[key]).await?;
        if seen.is_empty() {
            worker.pay(key).await?;
            worker.execute("INSERT INTO locked (key) VALUES ($1) ON CONFLICT DO NOTHING", &[key]).await?;
        }
        worker.run("COMMIT").await?;
        Ok(Answer::Paid)
    }
}
