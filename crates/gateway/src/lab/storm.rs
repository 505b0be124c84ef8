//! One row of the lab: a program, a fault, so many repeats at once; counted in the ledger.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use oncegate_store::lab::Refusal;
use tokio::{sync::Barrier, time::sleep};

use super::{
    program::{Answer, Kind, Program},
    shop::{Fate, Fault, Interrupted, Shop},
};

// === types ===

/// How a program is stormed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storm {
    pub(super) fault: Fault,
    /// Clients that send the same key at the same instant.
    pub(super) concurrency: usize,
    pub(super) keys: usize,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Row {
    pub(super) implementation: &'static str,
    pub(super) kind: Kind,
    pub(super) fault: Fault,
    pub(super) concurrency: usize,
    pub(super) keys: u64,
    /// Keys that were paid for.
    pub(super) executed: u64,
    /// Payments beyond the first of each key.
    pub(super) duplicates: u64,
    /// Answers with 500.
    pub(super) errors: u64,
    /// What the database said at the first of them.
    pub(super) first_error: Option<String>,
    /// Keys of which a client was told that they are paid while the ledger had no payment.
    pub(super) false_successes: u64,
    /// Keys whose clients all gave up: nobody was told that they are paid.
    pub(super) stuck: u64,
    /// Clients.
    pub(super) clients: u64,
    /// Clients that were told, in the end, that they have paid.
    pub(super) answered: u64,
}

/// What the clients of one row have seen.
#[derive(Debug, Default)]
struct Seen {
    errors: u64,
    first_error: Option<String>,
    answered: u64,
    told: HashSet<String>,
    told_in_vain: HashSet<String>,
}

/// How often a client tries: its pauses alone are longer than a worker's, a lease and the takeover's doubled one.
const TRIES: usize = 40;

/// After how many answers with 500 a client gives up.
const ERRORS_MAX: usize = 5;

/// Between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// Clients at work at once, of all keys.
const CLIENTS_MAX: usize = 300;

// === impl Storm ===

impl Storm {
    /// Storms a program with fresh keys, whose names begin with `prefix`.
    ///
    /// # Errors
    /// The ledger cannot be read. What the program is refused is counted instead.
    pub(super) async fn run(&self, program: &dyn Program, shop: &Shop, prefix: &str) -> Result<Row, Refusal> {
        let (fate, seen) = (Fate::new(self.fault), Mutex::new(Seen::default()));
        let at_once = (CLIENTS_MAX / self.concurrency).clamp(1, self.keys);
        shop.warm(at_once * self.concurrency).await?;
        let keys: Vec<String> = (0..self.keys).map(|number| format!("{prefix}{number}")).collect();
        for keys in keys.chunks(at_once) {
            // All clients of all these keys begin at the same instant.
            let start = Arc::new(Barrier::new(keys.len() * self.concurrency));
            let clients = keys.iter().flat_map(|key| (0..self.concurrency).map(move |_| key)).map(|key| {
                let (start, client) = (Arc::clone(&start), Client { program, shop, fate: &fate, seen: &seen, key });
                async move {
                    start.wait().await;
                    client.run().await
                }
            });
            join_all(clients).await.into_iter().collect::<Result<(), Refusal>>()?;
        }
        let paid = shop.paid(prefix).await?;
        let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(self.row(program, paid.keys, paid.payments, &seen))
    }

    fn row(&self, program: &dyn Program, executed: u64, payments: u64, seen: &Seen) -> Row {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Row {
            implementation: program.about().implementation,
            kind: program.about().kind,
            fault: self.fault,
            concurrency: self.concurrency,
            keys: number(self.keys),
            executed,
            duplicates: payments - executed,
            errors: seen.errors,
            first_error: seen.first_error.clone(),
            false_successes: number(seen.told_in_vain.len()),
            stuck: number(self.keys - seen.told.len()),
            clients: number(self.keys * self.concurrency),
            answered: seen.answered,
        }
    }
}

// === clients ===

/// A client that wants one payment, and repeats until it knows.
struct Client<'a> {
    program: &'a dyn Program,
    shop: &'a Shop,
    fate: &'a Arc<Fate>,
    seen: &'a Mutex<Seen>,
    key: &'a str,
}

impl Client<'_> {
    async fn run(&self) -> Result<(), Refusal> {
        let mut errors = 0;
        for _ in 0..TRIES {
            let worker = self.shop.worker(self.fate);
            let outcome = self.program.serve(&worker, self.key).await;
            match worker.leave(outcome).await {
                Ok(Answer::Paid) => return self.told().await,
                Ok(Answer::Busy) | Err(Interrupted::Died) => {}
                Err(Interrupted::Failed(refusal)) => {
                    errors += 1;
                    self.note(|seen| {
                        seen.errors += 1;
                        seen.first_error.get_or_insert(refusal.code);
                    });
                }
            }
            if errors == ERRORS_MAX {
                break;
            }
            sleep(TRY_PAUSE).await;
        }
        Ok(())
    }

    /// Believes nobody: looks whether there is a payment.
    async fn told(&self) -> Result<(), Refusal> {
        let is_paid = self.shop.is_paid(self.key).await?;
        self.note(|seen| {
            seen.answered += 1;
            seen.told.insert(self.key.to_owned());
            if !is_paid {
                seen.told_in_vain.insert(self.key.to_owned());
            }
        });
        Ok(())
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

// === impl Row ===

impl Row {
    /// Whether it is what its kind should show: of ours the promise, of others that nothing went wrong.
    pub(super) fn is_right(&self) -> bool {
        match self.kind {
            Kind::Naive => !self.has_failed(),
            Kind::Oncegate => self.keeps_the_promise(),
        }
    }

    /// Whether something went wrong, whatever it is.
    pub(super) fn has_failed(&self) -> bool {
        self.duplicates + self.errors + self.false_successes + self.stuck > 0
    }

    /// Whether it is what oncegate promises: each key executed once, and nearly everybody told.
    fn keeps_the_promise(&self) -> bool {
        self.executed == self.keys
            && self.duplicates + self.false_successes == 0
            && self.answered * 20 >= self.clients * 19
    }
}
