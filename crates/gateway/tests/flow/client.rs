//! Clients that leave.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// When a client leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leaves {
    /// As soon as the request has come to rest for the nth time, each time at another `await`.
    AtRest(usize),
    /// When the request was about to go on from there.
    Woken(usize),
    /// After everything else that could go on has gone on so often, by one step each.
    After(usize),
}

/// A request whose client leaves. Gives `None` if it left, which drops the request where it stood.
pub(crate) struct Leaving<F> {
    request: Option<Pin<Box<F>>>,
    leaves: Leaves,
    polls: usize,
}

impl<F: Future> Leaving<F> {
    pub(crate) fn new(request: F, leaves: Leaves) -> Self {
        Self { request: Some(Box::pin(request)), leaves, polls: 0 }
    }
}

impl<F: Future> Future for Leaving<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let is_over = |limit| self.polls >= limit;
        let (Leaves::AtRest(limit) | Leaves::Woken(limit) | Leaves::After(limit)) = self.leaves;
        if is_over(limit) {
            self.request = None;
            return Poll::Ready(None);
        }
        self.polls += 1;
        let request = self.request.as_mut().expect("polled after its end");
        if let Poll::Ready(answer) = request.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        match self.leaves {
            Leaves::AtRest(limit) if self.polls >= limit => {
                self.request = None;
                return Poll::Ready(None);
            }
            Leaves::AtRest(_) | Leaves::Woken(_) => {}
            Leaves::After(_) => cx.waker().wake_by_ref(),
        }
        Poll::Pending
    }
}
