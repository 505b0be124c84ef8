//! The recipe that most applications have: an INSERT before the work and an UPDATE after it, each a commit.

use oncegate_core::StoreError;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Statement};

use super::{connect, failed};
use crate::postgres::Address;

// === types ===

/// A pool of connections, and a table made anew. Statements are prepared, as a good driver has them.
#[derive(Debug)]
pub struct PlainRecipe(Vec<Mutex<Pooled>>);

struct Pooled {
    client: Client,
    insert: Statement,
    update: Statement,
}

// === impl PlainRecipe ===

impl PlainRecipe {
    /// As long as a fingerprint of ours.
    const FINGERPRINT: [u8; 41] = [7; 41];

    /// Makes the table anew and opens so many connections, at least one.
    ///
    /// # Errors
    /// The server cannot be reached, or has no room for so many. Cancelled: the table may have been made.
    pub async fn open(address: &Address, connections: usize) -> Result<Self, StoreError> {
        let first = connect(address).await?;
        first.batch_execute(include_str!("make_plain.sql")).await.map_err(failed("making the plain table"))?;
        let mut pool = Vec::with_capacity(connections.max(1));
        let mut next = Some(first);
        while pool.len() < connections.max(1) {
            let client = match next.take() {
                Some(client) => client,
                None => connect(address).await?,
            };
            let prepared = async { Ok((client.prepare(INSERT).await?, client.prepare(UPDATE).await?)) };
            let (insert, update) = prepared.await.map_err(failed("preparing the plain statements"))?;
            pool.push(Mutex::new(Pooled { client, insert, update }));
        }
        Ok(Self(pool))
    }

    /// Says that the key is taken, on a connection of the pool: each caller keeps to one, which is as good as a queue
    /// since the lock is fair. Answers whether it was free.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may have been said.
    pub async fn insert(&self, caller: usize, key: &str) -> Result<bool, StoreError> {
        let pooled = self.0[caller % self.0.len()].lock().await;
        let Pooled { client, insert, .. } = &*pooled;
        let rows = client.execute(insert, &[&key, &&Self::FINGERPRINT[..]]).await;
        rows.map(|rows| rows == 1).map_err(failed("the plain INSERT"))
    }

    /// Stores the answer; the connection was given back in between, as while the work is done.
    ///
    /// # Errors
    /// As the server has them. Cancelled: it may have been stored.
    pub async fn update(&self, caller: usize, key: &str, body: &[u8]) -> Result<bool, StoreError> {
        let pooled = self.0[caller % self.0.len()].lock().await;
        let Pooled { client, update, .. } = &*pooled;
        let rows = client.execute(update, &[&key, &201_i32, &body]).await;
        rows.map(|rows| rows == 1).map_err(failed("the plain UPDATE"))
    }

    /// How many rows have an answer.
    ///
    /// # Errors
    /// As the server has them. Cancelled: nothing happens.
    pub async fn completed(&self) -> Result<u64, StoreError> {
        let pooled = self.0[0].lock().await;
        let row = pooled.client.query_one("SELECT count(*) FROM plain WHERE status IS NOT NULL", &[]).await;
        let count: i64 = row.and_then(|row| row.try_get(0)).map_err(failed("counting the plain rows"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

const INSERT: &str = "INSERT INTO plain (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE plain SET status = $2, body = $3 WHERE key = $1 AND status IS NULL";

// === impl Pooled ===

impl std::fmt::Debug for Pooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pooled")
    }
}
