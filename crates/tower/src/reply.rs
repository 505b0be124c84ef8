//! How the task that executes answers the connection that may be gone.

use std::future::Future;

use http::Response;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::{Event, Problem, ResponseBody, UpstreamErrorKind, execute::Call, layer::Gate, local::Told};

// === types ===

/// What came of a request's turn.
#[allow(clippy::large_enum_variant, reason = "the large variant is the usual one, and moved once")]
pub(crate) enum Led<S, B, RB, E> {
    /// It executed, or failed to.
    Answered(Result<Response<ResponseBody<RB>>, E>),
    /// It does not execute; here is its call again.
    Told(Told, Box<Call<S, B>>),
}

/// The way back to the connection: used at most once, and nobody need listen.
pub(crate) struct Reply<S, B, RB, E>(Option<oneshot::Sender<Led<S, B, RB, E>>>);

// === detach ===

/// Runs `lead` in a tracked task of its own and waits for its reply. Dropping the future leaves the
/// task running.
pub(crate) fn detach<S, B, RB, E, F>(
    tasks: &TaskTracker,
    lead: impl FnOnce(Reply<S, B, RB, E>) -> F,
) -> impl Future<Output = Led<S, B, RB, E>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    // Boxed, since a task moves its future three times.
    tasks.spawn(Box::pin(lead(Reply(Some(sender)))));
    async {
        // A task that ends without a reply has panicked in our own code: the outcome is lost.
        let lost = || Led::Answered(Ok(Problem::upstream(UpstreamErrorKind::Failed, true).into_response()));
        receiver.await.unwrap_or_else(|_| lost())
    }
}

// === impl Reply ===

impl<S, B, RB, E> Reply<S, B, RB, E> {
    /// Whether the connection got its answer.
    pub(crate) fn is_sent(&self) -> bool {
        self.0.is_none()
    }

    /// Answers, if somebody still listens and no answer was sent before.
    pub(crate) fn send(&mut self, gate: &Gate, answered: Result<Response<ResponseBody<RB>>, E>) {
        if let Some(sender) = self.0.take()
            && sender.send(Led::Answered(answered)).is_err()
        {
            gate.observe(&Event::ClientLeft);
        }
    }

    /// Says that the store said something else, and gives the call back.
    pub(crate) fn told(mut self, told: Told, call: Call<S, B>) {
        if let Some(sender) = self.0.take() {
            // Whoever left needs neither.
            sender.send(Led::Told(told, Box::new(call))).ok();
        }
    }
}
