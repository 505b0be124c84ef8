//! A unique index, and no thought for what comes when it does its work.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct UniqueIndex;

#[async_trait]
impl Program for UniqueIndex {
    fn about(&self) -> &'static About {
        &About {
            implementation: "unique index alone",
            kind: Kind::Naive,
            about: "one payment, but every repeat gets 500, also when the first has long been answered",
            tables: "CREATE TABLE indexed (key text PRIMARY KEY)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        worker.run("BEGIN").await?;
        worker.execute("INSERT INTO indexed (key) VALUES ($1)", &[key]).await?;
        worker.pay(key).await?;
        worker.run("COMMIT").await?;
        Ok(Answer::Paid)
    }
}
