//! An ORM's `get_or_create` on a column that nobody made unique: SELECT, else INSERT; whoever created pays.

use async_trait::async_trait;
use oncegate_store::lab::Refusal;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct GetOrCreate;

#[async_trait]
impl Program for GetOrCreate {
    fn about(&self) -> &'static About {
        &About {
            implementation: "get_or_create",
            kind: Kind::Naive,
            about: "two that find nothing both create; from then on the key is found twice, which is an error for ever",
            tables: "CREATE TABLE created (key text NOT NULL)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let found = worker.rows("SELECT key FROM created WHERE key = $1", &[key]).await?;
        match found.len() {
            0 => {
                worker.run("BEGIN").await?;
                worker.execute("INSERT INTO created (key) VALUES ($1)", &[key]).await?;
                worker.pay(key).await?;
                worker.run("COMMIT").await?;
                Ok(Answer::Paid)
            }
            1 => Ok(Answer::Paid),
            _ => {
                Err(Refusal { code: "MultipleObjectsReturned".to_owned(), source: "two rows for one key".into() }
                    .into())
            }
        }
    }
}
