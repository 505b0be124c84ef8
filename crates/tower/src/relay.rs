//! complete: the response is forwarded while it is copied, and its end is held until it is stored.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, response::Parts};
use http_body::{Body, Frame};
use oncegate_core::{DoubtReason, StoredResponse, Written};
use tokio::{
    sync::mpsc,
    time::{timeout, timeout_at},
};

use crate::{
    BoxError, Event, Problem, ResponseBody, Route, UpstreamErrorKind,
    body::{Relayed, next_frame},
    crash,
    execute::{Execution, upstream_error_kind},
    replay::{kept_headers, mark_executed},
    reply::Reply,
    settle::Settlement,
};

// === types ===

/// What is stored of a response: all of it, or a marker that its body was not kept.
struct Copy {
    status: u16,
    headers: Vec<(String, Bytes)>,
    chunks: Option<Vec<Bytes>>,
    bytes_max: usize,
}

/// A body as far as it came while its head waits.
#[derive(Default)]
struct Held {
    chunks: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    is_whole: bool,
}

/// The way to a client that may be slow or gone.
struct Forward<'a> {
    execution: &'a Execution,
    client: Option<mpsc::Sender<Relayed>>,
    /// What is still to come, where the response said how long it is.
    remaining: Option<u64>,
    last_byte: Option<Bytes>,
}

// === impl Execution: complete ===

impl Execution {
    /// A response that is whole within this time and length is answered at once with its head.
    /// Anything longer or slower is forwarded as it comes.
    const HEAD_WAITS: Duration = Duration::from_millis(20);
    const HELD_BYTES_MAX: usize = 64 * 1024;
    /// How many parts of a response may wait for a slow client.
    const PARTS_AHEAD: usize = 8;

    /// Stores a response and answers with it.
    pub(crate) async fn complete<S, B, RB, E>(&self, response: Response<RB>, reply: &mut Reply<S, B, RB, E>)
    where
        RB: Body<Data = Bytes> + Send,
        RB::Error: Into<BoxError>,
    {
        let (mut parts, body) = response.into_parts();
        let length = body.size_hint().exact();
        let mut copy = Copy::new(&self.guarded.route, &parts, length);
        mark_executed(&mut parts, self.now().after(self.guarded.route.policy.retention));
        let mut body = std::pin::pin!(body);
        let mut held = Held::default();
        let until = tokio::time::Instant::now() + Self::HEAD_WAITS;
        match timeout_at(until, held.fill(body.as_mut(), Self::HELD_BYTES_MAX)).await {
            Ok(Err(error)) => {
                let (kind, settlement) = self.cut_short(&error);
                let is_doubted = settlement.is_some();
                let problem = Problem::upstream(kind, is_doubted).into_response();
                self.settle_and_answer(settlement, reply, Ok(problem)).await;
            }
            Ok(Ok(())) if held.is_whole => {
                crash::point("body_received");
                let whole = joined(&held.chunks);
                copy.push(&whole);
                let response = Response::from_parts(parts, ResponseBody::whole_with(whole, held.trailers));
                self.settle_and_answer(Some(self.kept(copy)), reply, Ok(response)).await;
            }
            Ok(Ok(())) | Err(_) => {
                let (sender, receiver) = mpsc::channel(Self::PARTS_AHEAD);
                reply.send(&self.gate, Ok(Response::from_parts(parts, ResponseBody::relayed(receiver, length))));
                let forward = Forward { execution: self, client: Some(sender), remaining: length, last_byte: None };
                self.relay(body, held, copy, forward).await;
            }
        }
    }

    /// Forwards and copies what is held and what still comes, stores it, and lets its end go.
    async fn relay<RB>(&self, mut body: Pin<&mut RB>, held: Held, mut copy: Copy, mut forward: Forward<'_>)
    where
        RB: Body<Data = Bytes>,
        RB::Error: Into<BoxError>,
    {
        let mut trailers = held.trailers;
        for chunk in held.chunks {
            copy.push(&chunk);
            forward.data(chunk).await;
        }
        while let Some(frame) = next_frame(body.as_mut()).await {
            match frame.map(Frame::into_data) {
                Ok(Ok(chunk)) => {
                    copy.push(&chunk);
                    forward.data(chunk).await;
                }
                Ok(Err(other)) => trailers = other.into_trailers().ok(),
                Err(error) => return self.cut_while_relayed(error, forward).await,
            }
        }
        let settlement = self.kept(copy);
        match self.settle_once(&settlement).await {
            Ok(Written::Done) => forward.end(trailers).await,
            // Somebody else has the record: without its end this is nobody's answer.
            Ok(Written::Stale) => {}
            Err(_) => {
                forward.end(trailers).await;
                self.settle_further(&settlement).await;
            }
        }
    }

    async fn cut_while_relayed(&self, error: BoxError, forward: Forward<'_>) {
        let (_, settlement) = self.cut_short(&error);
        if let Some(settlement) = settlement {
            let settled = self.settle_once(&settlement).await;
            forward.fail(error).await;
            if settled.is_err() {
                self.settle_further(&settlement).await;
            }
        } else {
            forward.fail(error).await;
        }
    }

    /// A response whose body broke off says that something was done, but not what.
    fn cut_short(&self, error: &BoxError) -> (UpstreamErrorKind, Option<Settlement>) {
        match upstream_error_kind(error) {
            Some(UpstreamErrorKind::Timeout) => (UpstreamErrorKind::Timeout, self.lost(DoubtReason::TIMEOUT)),
            Some(UpstreamErrorKind::Failed | UpstreamErrorKind::Unreachable) | None => {
                (UpstreamErrorKind::Failed, self.lost(DoubtReason::BODY_CUT))
            }
        }
    }

    fn kept(&self, copy: Copy) -> Settlement {
        if copy.chunks.is_none() {
            self.gate.observe(&Event::Marked);
        }
        Settlement::Complete(Arc::new(copy.into_response()))
    }
}

// === impl Copy ===

impl Copy {
    fn new(route: &Route, parts: &Parts, length: Option<u64>) -> Self {
        let bytes_max = route.max_stored_body;
        let is_too_long = length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > bytes_max));
        // A part of a representation, or a connection that became something else, is no answer to
        // the next request.
        let is_partial = matches!(parts.status, StatusCode::PARTIAL_CONTENT | StatusCode::SWITCHING_PROTOCOLS);
        let is_kept = route.store_body && !is_too_long && !is_partial;
        Self {
            status: parts.status.as_u16(),
            // A secret that is shown once can stand in `Location`, too; and the marker's repeats get no headers.
            headers: if route.store_body { kept_headers(route, &parts.headers) } else { Vec::new() },
            chunks: is_kept.then(Vec::new),
            bytes_max,
        }
    }

    fn push(&mut self, chunk: &Bytes) {
        let Some(chunks) = &mut self.chunks else { return };
        match self.bytes_max.checked_sub(chunk.len()) {
            Some(left) => {
                self.bytes_max = left;
                chunks.push(chunk.clone());
            }
            None => self.chunks = None,
        }
    }

    fn into_response(self) -> StoredResponse {
        // A part of what was read from a connection keeps all of that in memory, and this is kept for seconds.
        let body = self.chunks.map(|chunks| Bytes::from(chunks.concat()));
        StoredResponse { status: self.status, headers: self.headers, body }
    }
}

fn joined(chunks: &[Bytes]) -> Bytes {
    match chunks {
        [] => Bytes::new(),
        [one] => one.clone(),
        several => several.iter().flatten().copied().collect::<BytesMut>().freeze(),
    }
}

// === impl Held ===

impl Held {
    /// Takes what comes, up to `bytes_max` and somewhat more. Dropping the future loses nothing.
    async fn fill<RB>(&mut self, mut body: Pin<&mut RB>, bytes_max: usize) -> Result<(), BoxError>
    where
        RB: Body<Data = Bytes>,
        RB::Error: Into<BoxError>,
    {
        let mut length = 0;
        while length < bytes_max {
            let Some(frame) = next_frame(body.as_mut()).await else {
                self.is_whole = true;
                return Ok(());
            };
            match frame?.into_data() {
                Ok(chunk) => {
                    length += chunk.len();
                    self.chunks.push(chunk);
                }
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        Ok(())
    }
}

// === impl Forward ===

impl Forward<'_> {
    /// Sends a part. Where the response said how long it is, its last byte stays here: with it the
    /// client would have a whole answer, and its repeat must find the record stored.
    async fn data(&mut self, mut chunk: Bytes) {
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            if *remaining == 0 && !chunk.is_empty() {
                self.last_byte = Some(chunk.split_off(chunk.len() - 1));
            }
        }
        if !chunk.is_empty() {
            self.send(Relayed::Frame(Frame::data(chunk))).await;
        }
    }

    async fn end(mut self, trailers: Option<HeaderMap>) {
        if let Some(last_byte) = self.last_byte.take() {
            self.send(Relayed::Frame(Frame::data(last_byte))).await;
        }
        if let Some(trailers) = trailers {
            self.send(Relayed::Frame(Frame::trailers(trailers))).await;
        }
        self.send(Relayed::End).await;
    }

    async fn fail(mut self, error: BoxError) {
        self.send(Relayed::Failed(error)).await;
    }

    /// A client that is gone, or takes nothing for longer than an upstream might pause, holds up
    /// neither the copy nor the record.
    async fn send(&mut self, relayed: Relayed) {
        let Some(client) = &self.client else { return };
        let sent = timeout(self.execution.guarded.route.idle_timeout, client.send(relayed)).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.client = None;
            self.execution.gate.observe(&Event::ClientLeft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_holds_nothing_of_what_was_read_with_it() {
        let read = Bytes::from(vec![b'x'; 8192]);
        let mut copy = Copy { status: 201, headers: Vec::new(), chunks: Some(Vec::new()), bytes_max: 100 };
        copy.push(&read.slice(..10));
        let response = copy.into_response();
        assert_eq!(response.body.as_deref(), Some(&[b'x'; 10][..]));
        assert!(read.is_unique());
    }
}
