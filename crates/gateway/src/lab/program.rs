//! What is stormed: a handler of payments, guarded in one way or another.

use async_trait::async_trait;

use super::shop::{Fault, Interrupted, Worker};

// === types ===

/// A way to make a handler harmless to repeat, or to believe that.
#[async_trait]
pub(super) trait Program: Send + Sync {
    /// What a reader has to know of it.
    fn about(&self) -> &'static About;

    /// Whether it can be struck so here: a cache that forgets is nothing to who has none.
    fn can_meet(&self, fault: Fault) -> bool {
        fault != Fault::CacheRestart
    }

    /// Answers one request.
    async fn serve(&self, worker: &Worker<'_>, key: &str) -> Result<Answer, Interrupted>;
}

/// What a reader has to know of a program.
#[derive(Debug, serde::Serialize)]
pub(super) struct About {
    /// What the table calls it.
    pub(super) implementation: &'static str,
    pub(super) kind: Kind,
    /// What is wrong with it, or what it promises.
    pub(super) about: &'static str,
    /// The SQL that makes its tables.
    #[serde(skip)]
    pub(super) tables: &'static str,
}

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// What people write.
    Naive,
    /// Ours.
    Oncegate,
}

/// What the client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// 2xx: the payment was made, by this request or another.
    Paid,
    /// 409: come again later.
    Busy,
}
