//! The strategies in SQL around a handler of one INSERT, each on a pool of connections, as an application has them.

use oncegate_core::StoreError;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Statement};

use super::{connect, failed};
use crate::postgres::Address;

// === types ===

/// How the handler is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Not at all.
    Bare,
    /// `oncegate.claim` in a commit of its own, then the effect and `oncegate.complete` in one.
    Claim,
    /// `oncegate.enter`, the effect and `oncegate.complete` in one commit.
    Enter,
}

/// A pool of connections, and a table of effects made anew. Statements are prepared, as a good driver has them.
#[derive(Debug)]
pub struct Shop {
    strategy: Strategy,
    pool: Vec<Mutex<Worker>>,
}

struct Worker {
    client: Client,
    effect: Statement,
    claim: Statement,
    complete: Statement,
}

// === impl Strategy ===

impl Strategy {
    /// All, the bare one first.
    pub const ALL: [Self; 3] = [Self::Bare, Self::Claim, Self::Enter];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Claim => "claim",
            Self::Enter => "enter",
        }
    }
}

// === impl Shop ===

impl Shop {
    /// Makes the table anew and opens so many connections, at least one.
    ///
    /// # Errors
    /// The server cannot be reached, or has no room for so many. Cancelled: the table may have been made.
    pub async fn open(address: &Address, strategy: Strategy, connections: usize) -> Result<Self, StoreError> {
        let keeper = connect(address).await?;
        let make = "DROP TABLE IF EXISTS effects; CREATE TABLE effects (key text NOT NULL, amount integer NOT NULL)";
        keeper.batch_execute(make).await.map_err(failed("making the table of effects"))?;
        let mut pool = Vec::with_capacity(connections.max(1));
        for _ in 0..connections.max(1) {
            let worker = Worker::hired(connect(address).await?, strategy).await;
            pool.push(Mutex::new(worker.map_err(failed("preparing the strategy's statements"))?));
        }
        Ok(Self { strategy, pool })
    }

    /// One request with a new key, on the caller's connection. Answers whether it was the executor.
    ///
    /// # Errors
    /// As the server has them. Cancelled: the transaction may be open.
    pub async fn serve(&self, caller: usize, scope: &str, key: &str, body: &[u8]) -> Result<bool, StoreError> {
        let worker = self.pool[caller % self.pool.len()].lock().await;
        let served = match self.strategy {
            Strategy::Bare => worker.client.execute(&worker.effect, &[&key]).await.map(|rows| rows == 1),
            Strategy::Claim => worker.claim_and_complete(scope, key, body).await,
            Strategy::Enter => worker.enter_and_complete(scope, key, body).await,
        };
        served.map_err(failed("a guarded request"))
    }

    /// How many effects there are.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn effects(&self) -> Result<u64, StoreError> {
        let worker = self.pool[0].lock().await;
        let row = worker.client.query_one("SELECT count(*) FROM effects", &[]).await;
        let count: i64 = row.and_then(|row| row.try_get(0)).map_err(failed("counting the effects"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

// === impl Worker ===

impl Worker {
    async fn hired(client: Client, strategy: Strategy) -> Result<Self, tokio_postgres::Error> {
        let claim = match strategy {
            Strategy::Bare | Strategy::Claim => include_str!("claim.sql"),
            Strategy::Enter => include_str!("enter.sql"),
        };
        let effect = client.prepare("INSERT INTO effects (key, amount) VALUES ($1, 100)").await?;
        let claim = client.prepare(claim).await?;
        let complete = "SELECT oncegate.complete($1, $2, 201, '[[\"content-type\", \"application/json\"]]', $3)";
        let complete = client.prepare(complete).await?;
        Ok(Self { client, effect, claim, complete })
    }

    async fn claim_and_complete(&self, scope: &str, key: &str, body: &[u8]) -> Result<bool, tokio_postgres::Error> {
        let claimed = self.client.query_one(&self.claim, &[&scope, &key]).await?;
        self.client.batch_execute("BEGIN").await?;
        self.complete(&claimed, key, body).await
    }

    async fn enter_and_complete(&self, scope: &str, key: &str, body: &[u8]) -> Result<bool, tokio_postgres::Error> {
        self.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let entered = self.client.query_one(&self.claim, &[&scope, &key]).await?;
        self.complete(&entered, key, body).await
    }

    /// The effect and its completion, and the commit of both.
    async fn complete(
        &self,
        claimed: &tokio_postgres::Row,
        key: &str,
        body: &[u8],
    ) -> Result<bool, tokio_postgres::Error> {
        let outcome: &str = claimed.try_get("outcome")?;
        if outcome != "acquired" {
            self.client.batch_execute("ROLLBACK").await?;
            return Ok(false);
        }
        let (record, fence): (uuid::Uuid, i64) = (claimed.try_get("record")?, claimed.try_get("fence")?);
        self.client.execute(&self.effect, &[&key]).await?;
        self.client.query_one(&self.complete, &[&record, &fence, &body]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(true)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Worker")
    }
}
