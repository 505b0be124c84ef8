//! Claim the key, pay; a key that is taken counts as paid. Nobody can tell running from done.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct NoInProgressState;

#[async_trait]
impl Program for NoInProgressState {
    fn about(&self) -> &'static About {
        &About {
            implementation: "no in-progress state",
            kind: Kind::Naive,
            about: "repeats are told that it is paid while the first is still at it, or is dead",
            tables: "CREATE TABLE taken (key text PRIMARY KEY)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let claimed = worker.execute("INSERT INTO taken (key) VALUES ($1) ON CONFLICT DO NOTHING", &[key]).await?;
        if claimed == 1 {
            worker.pay(key).await?;
        }
        Ok(Answer::Paid)
    }
}
