//! A request body on its way to the backend, and what is known of its progress.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use oncegate_tower::{BoxError, RequestBody};
use tokio::time::Instant;

use super::super::client_body::ClientBody;

/// The body that hyper sends.
pub(super) struct UploadBody {
    body: RequestBody<ClientBody>,
    /// `None` for a request without a body.
    upload: Option<Arc<Upload>>,
}

/// The state of one upload, shared by the body and by whoever waits for the response.
#[derive(Debug)]
pub(super) struct Upload {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    gate: Gate,
    /// When the last part was taken, or taking began.
    last_part: Instant,
    /// The client has not sent the next part yet.
    is_client_waited_for: bool,
    /// Whoever was told to wait for the next part.
    waker: Option<Waker>,
}

/// Whether parts may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Not yet: the backend has not asked for the body.
    Closed,
    Open,
    /// All parts went out.
    Passed,
    /// No more: the backend refused the body and its answer is being read.
    Ceased,
    /// The answer was read: the connection has to end.
    Abandoned,
}

/// What the gate says to the next part.
enum Passage {
    Go,
    Wait,
    End,
}

/// The backend answered before the body was sent whole, and did not want the rest.
#[derive(Debug, thiserror::Error)]
#[error("the upstream refused the rest of the request body")]
struct Refused;

// === impl UploadBody ===

impl UploadBody {
    pub(super) fn new(body: RequestBody<ClientBody>, upload: Option<Arc<Upload>>) -> Self {
        Self { body, upload }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(upload) = &this.upload else { return Pin::new(&mut this.body).poll_frame(cx) };
        match upload.pass(cx) {
            Passage::Go => {}
            Passage::Wait => return Poll::Pending,
            Passage::End => return Poll::Ready(Some(Err(Refused.into()))),
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        match &frame {
            Poll::Pending => upload.wait(cx),
            Poll::Ready(frame) => upload.move_on(frame.is_none() || this.body.is_end_stream()),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Upload ===

impl Upload {
    pub(super) fn new(is_closed: bool) -> Self {
        let gate = if is_closed { Gate::Closed } else { Gate::Open };
        let state = State { gate, last_part: Instant::now(), is_client_waited_for: false, waker: None };
        Self { state: Mutex::new(state) }
    }

    /// Whether the backend has yet to ask for the body.
    pub(super) fn is_closed(&self) -> bool {
        self.state().gate == Gate::Closed
    }

    /// Whether all of it was handed over to be sent.
    pub(super) fn is_passed(&self) -> bool {
        self.state().gate == Gate::Passed
    }

    /// The backend asked for the body, or took too long to.
    pub(super) fn open(&self) {
        self.turn(Gate::Closed, Gate::Open);
    }

    /// Stops before the next part. `false`: there is none, everything was sent.
    pub(super) fn cease(&self) -> bool {
        self.turn(Gate::Closed, Gate::Ceased);
        self.turn(Gate::Open, Gate::Ceased);
        self.state().gate == Gate::Ceased
    }

    /// Ends the connection of a body that was ceased; only an error makes hyper do so.
    pub(super) fn abandon(&self) {
        self.turn(Gate::Ceased, Gate::Abandoned);
    }

    /// When the last part went out: now, while the client is the one to wait for, since that is limited elsewhere.
    pub(super) fn last_part(&self) -> Instant {
        let state = self.state();
        if state.is_client_waited_for { Instant::now() } else { state.last_part }
    }

    fn turn(&self, from: Gate, to: Gate) {
        let mut state = self.state();
        if state.gate == from {
            state.gate = to;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    fn pass(&self, cx: &Context<'_>) -> Passage {
        let mut state = self.state();
        match state.gate {
            Gate::Open | Gate::Passed => Passage::Go,
            Gate::Closed | Gate::Ceased => {
                state.waker = Some(cx.waker().clone());
                Passage::Wait
            }
            Gate::Abandoned => Passage::End,
        }
    }

    /// The client has not sent the next part yet.
    fn wait(&self, cx: &Context<'_>) {
        let mut state = self.state();
        state.is_client_waited_for = true;
        state.waker = Some(cx.waker().clone());
    }

    /// A part goes out, or the end.
    fn move_on(&self, is_over: bool) {
        let mut state = self.state();
        state.is_client_waited_for = false;
        state.last_part = Instant::now();
        if is_over {
            state.gate = Gate::Passed;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}
