//! Look whether the key was seen; if not, pay and note the key.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Interrupted, Worker},
};

pub(super) struct CheckThenAct;

#[async_trait]
impl Program for CheckThenAct {
    fn about(&self) -> &'static About {
        &About {
            implementation: "check, then act",
            kind: Kind::Naive,
            about: "whoever looks before the first has written its key pays as well",
            tables: "CREATE TABLE checked (key text PRIMARY KEY)",
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let seen = worker.rows("SELECT key FROM checked WHERE key = $1", &[key]).await?;
        if seen.is_empty() {
            worker.pay(key).await?;
            worker.execute("INSERT INTO checked (key) VALUES ($1) ON CONFLICT DO NOTHING", &[key]).await?;
        }
        Ok(Answer::Paid)
    }
}
