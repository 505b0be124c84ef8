//! One kill: load, death, restart, and the repeats of everything that was sent.

use std::collections::HashMap;

use bytes::Bytes;
use oncegate_core::Backend;
use tokio::task::JoinSet;

use crate::{
    client::Client,
    gate::Gate,
    upstream::{self, Ledger},
};

pub(crate) struct Round {
    pub(crate) backend: Backend,
    pub(crate) point: &'static str,
    pub(crate) kill: usize,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Keys whose answer came before the kill.
    pub(crate) answered: usize,
    /// Keys whose answer did not come.
    pub(crate) in_flight: usize,
    /// Of those: answered by a replay after the restart, so the record was stored.
    pub(crate) replayed: usize,
    /// Of those: executed after the restart for the first time.
    pub(crate) executed: usize,
    /// Of those: executed again under a new fence.
    pub(crate) takeovers: usize,
    /// Of those: unknown.
    pub(crate) unknown: usize,
    /// Keys that the backend saw more than once.
    pub(crate) second_executions: usize,
    /// Answered keys whose repeat got anything but the same answer.
    pub(crate) lost_answers: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.in_flight += other.in_flight;
        self.replayed += other.replayed;
        self.executed += other.executed;
        self.takeovers += other.takeovers;
        self.unknown += other.unknown;
        self.second_executions += other.second_executions;
        self.lost_answers += other.lost_answers;
    }
}

/// Clients at once.
const CLIENTS: usize = 16;

impl Round {
    pub(crate) async fn run(&self) -> Tally {
        let directory = tempfile::tempdir().unwrap();
        let (upstream, ledger) = upstream::start().await;
        let crash_at = format!("{}:{}", self.point, 20 + 7 * self.kill);
        let gate = Gate::start(directory.path(), &upstream, self.backend, Some(&crash_at)).await;
        let sent = load(&gate.address).await;
        gate.died().await;

        let gate = Gate::start(directory.path(), &upstream, self.backend, None).await;
        let tally = self.repeat(&gate.address, sent, &ledger).await;
        gate.stop().await;
        tally
    }

    async fn repeat(&self, address: &str, sent: HashMap<String, Option<Bytes>>, ledger: &Ledger) -> Tally {
        let client = Client::new();
        let before = ledger.lock().unwrap().clone();
        let mut repeats = JoinSet::new();
        for (key, first) in sent {
            let (client, address) = (client.clone(), address.to_owned());
            repeats.spawn(async move {
                let answer = client.conclude(&address, &key).await;
                (key, first, answer)
            });
        }
        let mut tally = Tally::default();
        while let Some(repeated) = repeats.join_next().await {
            let (key, first, answer) = repeated.unwrap();
            let is_known = before.contains_key(&key);
            match first {
                Some(body) => {
                    tally.answered += 1;
                    tally.lost_answers += usize::from(!answer.is_replay() || answer.body != body);
                }
                None => {
                    tally.in_flight += 1;
                    match (answer.status, answer.problem()) {
                        (201, None) if answer.is_replay() => tally.replayed += 1,
                        (201, None) if ledger.lock().unwrap()[&key].contains(&2) => tally.takeovers += 1,
                        (201, None) => tally.executed += 1,
                        (409, Some("unknown")) => tally.unknown += 1,
                        other => panic!("{key} (known to the backend: {is_known}) got {other:?}"),
                    }
                }
            }
        }
        tally.second_executions = ledger.lock().unwrap().values().filter(|attempts| attempts.len() > 1).count();
        tally
    }
}

/// Sends new keys until the gate dies. For each key: the answer, if it came.
async fn load(address: &str) -> HashMap<String, Option<Bytes>> {
    let client = Client::new();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (client, address) = (client.clone(), address.to_owned());
        clients.spawn(async move {
            let mut sent = Vec::new();
            for payment in 0.. {
                let key = format!("client-{number}-payment-{payment}");
                let answer = client.pay(&address, &key).await;
                let is_over = answer.is_none();
                // A busy machine may have been too late, which is no answer that must be kept.
                let answer = answer.filter(|answer| answer.problem() != Some("store-unavailable"));
                if let Some(answer) = &answer {
                    assert_eq!(answer.status, 201, "before the kill");
                }
                sent.push((key, answer.map(|answer| answer.body)));
                if is_over {
                    break;
                }
            }
            sent
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}
