//! One connection, made when it is needed, and transactions that travel in one round trip.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, join3};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{address::Address, error::Failure, verb::Statement};

// === types ===

/// A connection to come, or one that stands.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    reply_timeout: Duration,
    standing: Option<Standing>,
    /// Since when the standing connection owes an answer. Whoever asked may have left since, and a connection that has
    /// died in silence would be asked for ever.
    unanswered: Option<Instant>,
}

#[derive(Debug)]
struct Standing {
    client: Client,
    /// The task that drives it.
    driver: AbortHandle,
}

// === impl Link ===

impl Link {
    pub(super) fn new(address: Arc<Address>, reply_timeout: Duration) -> Self {
        Self { address, reply_timeout, standing: None, unanswered: None }
    }

    /// Carries out the statements in one transaction. `begin`, the statements and the commit are sent together, so
    /// that it takes one round trip, and a pooler that lends a connection for a transaction lends it for no longer.
    ///
    /// Nothing is cancelled, neither when this future is dropped after its first poll nor when the answer does not
    /// come in time: the connection is given up then, and the server goes on to the commit.
    pub(super) async fn transact(
        &mut self,
        begin: &str,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let reply_timeout = self.reply_timeout;
        let client = self.client().await?;
        let queries = join_all(statements.iter().map(|statement| query(client, statement)));
        let exchange = join3(client.batch_execute(begin), queries, client.batch_execute("COMMIT"));
        let outcome = match timeout(reply_timeout, exchange).await {
            // The first error is the cause of those that follow.
            Ok((begun, rows, committed)) => match begun.and(rows.into_iter().collect::<Result<Vec<_>, _>>()) {
                Ok(rows) => committed.map(|()| rows).map_err(Failure::from),
                Err(error) => Err(Failure::from(error)),
            },
            Err(_) => Err(Failure::Lost(None)),
        };
        self.unanswered = None;
        if matches!(outcome, Err(Failure::Lost(_))) {
            self.give_up();
        }
        outcome
    }

    /// The connection that stands, or a new one; from now on it owes an answer.
    async fn client(&mut self) -> Result<&Client, Failure> {
        let is_silent = self.unanswered.is_some_and(|since| since.elapsed() >= self.reply_timeout);
        if is_silent || self.standing.as_ref().is_none_or(|standing| standing.client.is_closed()) {
            self.give_up();
            let connecting = self.address.connect().await;
            let (client, driver) = connecting.map_err(|error| Failure::NotConnected(Arc::new(error)))?;
            self.standing = Some(Standing { client, driver });
        }
        self.unanswered.get_or_insert_with(Instant::now);
        Ok(&self.standing.as_ref().expect("it was just made").client)
    }

    /// Leaves a connection that does not answer; one that does is closed in good order by dropping its client.
    fn give_up(&mut self) {
        if let Some(standing) = self.standing.take() {
            standing.driver.abort();
        }
        self.unanswered = None;
    }
}

/// Runs in one exchange of messages and leaves no prepared statement behind, as poolers need it.
async fn query(client: &Client, statement: &Statement<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> = statement
        .parameters
        .iter()
        .map(|(value, kind)| {
            let value: &(dyn ToSql + Sync) = &**value;
            (value, kind.clone())
        })
        .collect();
    client.query_typed(statement.sql, &parameters).await
}
