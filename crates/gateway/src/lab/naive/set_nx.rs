//! `SET NX` as the claim, and Redis alone to remember it.

use async_trait::async_trait;

use crate::lab::{
    program::{About, Answer, Kind, Program},
    shop::{Fault, Interrupted, Worker},
};

pub(super) struct SetNx;

/// A day, in milliseconds.
const KEPT: u64 = 86_400_000;

const IN_PROGRESS: &str = "in progress";
const DONE: &str = "done";

#[async_trait]
impl Program for SetNx {
    fn about(&self) -> &'static About {
        &About {
            implementation: "SET NX alone",
            kind: Kind::Naive,
            about: "a Redis that restarts has forgotten the key: SET NX succeeds again, and the payment is made again",
            tables: "",
        }
    }

    fn can_meet(&self, fault: Fault) -> bool {
        match fault {
            Fault::None | Fault::CacheRestart => true,
            // Crashes and pauses do to it what they do to the programs before it.
            Fault::CrashBeforeEffect | Fault::CrashAfterEffect | Fault::Pause => false,
        }
    }

    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted> {
        let cache = worker.cache();
        if !cache.set_if_absent(key, IN_PROGRESS, KEPT).await? {
            let is_done = cache.get(key).await?.as_deref() == Some(DONE);
            return Ok(if is_done { Answer::Paid } else { Answer::Busy });
        }
        worker.pay(key).await?;
        cache.set(key, DONE).await?;
        Ok(Answer::Paid)
    }
}
