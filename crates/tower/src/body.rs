//! The bodies that go in and come out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use pin_project_lite::pin_project;
use tokio::sync::mpsc;

use crate::{BoxError, Route};

// === types ===

pin_project! {
    /// The body that the inner service gets: the client's own where nothing is guarded, otherwise
    /// the same bytes again after they were read for the fingerprint.
    pub struct RequestBody<B> {
        #[pin]
        source: RequestSource<B>,
        route: Option<Arc<Route>>,
    }
}

pin_project! {
    #[project = RequestSourceProject]
    enum RequestSource<B> {
        Passed { #[pin] body: B },
        Kept { bytes: Option<Bytes>, trailers: Option<HeaderMap> },
        Spooled { #[pin] body: UnsyncBoxBody<Bytes, BoxError>, remaining: u64 },
    }
}

pin_project! {
    /// The body of an answer: the inner service's own, one that is known whole, or one that is
    /// forwarded while the executing task copies it.
    pub struct ResponseBody<B> {
        #[pin]
        source: ResponseSource<B>,
    }
}

pin_project! {
    #[project = ResponseSourceProject]
    enum ResponseSource<B> {
        Passed { #[pin] body: B },
        Whole { bytes: Option<Bytes>, trailers: Option<HeaderMap> },
        Relayed { frames: mpsc::Receiver<Relayed>, remaining: Option<u64>, is_ended: bool },
    }
}

/// What the executing task sends of a response that is forwarded.
pub(crate) enum Relayed {
    /// A part of it.
    Frame(Frame<Bytes>),
    /// It broke off.
    Failed(BoxError),
    /// It is whole. A task that goes without this word has cut it short.
    End,
}

/// The executing task ended before the response did.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut short")]
struct CutShort;

// === impl RequestBody ===

impl<B> RequestBody<B> {
    /// The client's body, untouched.
    pub fn passed(body: B) -> Self {
        Self { source: RequestSource::Passed { body }, route: None }
    }

    /// A body that was read whole.
    pub fn kept(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self { source: RequestSource::Kept { bytes, trailers }, route: None }
    }

    /// A body of `length` bytes that was read into a file.
    pub(crate) fn spooled(body: UnsyncBoxBody<Bytes, BoxError>, length: u64) -> Self {
        Self { source: RequestSource::Spooled { body, remaining: length }, route: None }
    }

    /// The route that the request took through the layer.
    #[must_use]
    pub fn route(&self) -> Option<&Route> {
        self.route.as_deref()
    }

    /// The same body of a request on this route.
    #[must_use]
    pub fn on(self, route: &Arc<Route>) -> Self {
        Self { route: Some(Arc::clone(route)), ..self }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().source.project() {
            RequestSourceProject::Passed { body } => body.poll_frame(cx).map_err(Into::into),
            RequestSourceProject::Kept { bytes, trailers } => Poll::Ready(next_whole(bytes, trailers)),
            RequestSourceProject::Spooled { body, remaining } => {
                let frame = ready!(body.poll_frame(cx));
                if let Some(Ok(frame)) = &frame {
                    *remaining = remaining.saturating_sub(frame.data_ref().map_or(0, length_of));
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            RequestSource::Passed { body } => body.is_end_stream(),
            RequestSource::Kept { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            RequestSource::Spooled { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            RequestSource::Passed { body } => body.size_hint(),
            RequestSource::Kept { bytes, .. } => exactly(bytes.as_ref()),
            RequestSource::Spooled { remaining, .. } => SizeHint::with_exact(*remaining),
        }
    }
}

impl<B> std::fmt::Debug for RequestBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestBody").finish_non_exhaustive()
    }
}

// === impl ResponseBody ===

impl<B> ResponseBody<B> {
    /// The inner service's body, untouched.
    pub fn passed(body: B) -> Self {
        Self { source: ResponseSource::Passed { body } }
    }

    /// A body that is known whole: a replay, a problem document, a short response that is stored.
    pub fn whole(bytes: Bytes) -> Self {
        Self::whole_with(bytes, None)
    }

    pub(crate) fn whole_with(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { source: ResponseSource::Whole { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()), trailers } }
    }

    /// A body of `length` bytes, if that is known, which the executing task sends.
    pub(crate) fn relayed(frames: mpsc::Receiver<Relayed>, length: Option<u64>) -> Self {
        Self { source: ResponseSource::Relayed { frames, remaining: length, is_ended: false } }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().source.project() {
            ResponseSourceProject::Passed { body } => body.poll_frame(cx).map_err(Into::into),
            ResponseSourceProject::Whole { bytes, trailers } => Poll::Ready(next_whole(bytes, trailers)),
            ResponseSourceProject::Relayed { is_ended: true, .. } => Poll::Ready(None),
            ResponseSourceProject::Relayed { frames, remaining, is_ended } => {
                let relayed = ready!(frames.poll_recv(cx));
                *is_ended = !matches!(relayed, Some(Relayed::Frame(_)));
                Poll::Ready(match relayed {
                    Some(Relayed::Frame(frame)) => {
                        if let Some(remaining) = remaining {
                            *remaining = remaining.saturating_sub(frame.data_ref().map_or(0, length_of));
                        }
                        Some(Ok(frame))
                    }
                    Some(Relayed::Failed(error)) => Some(Err(error)),
                    Some(Relayed::End) => None,
                    None => Some(Err(CutShort.into())),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            ResponseSource::Passed { body } => body.is_end_stream(),
            ResponseSource::Whole { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            // Only the task knows: a record may still have to be stored.
            ResponseSource::Relayed { is_ended, .. } => *is_ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            ResponseSource::Passed { body } => body.size_hint(),
            ResponseSource::Whole { bytes, .. } => exactly(bytes.as_ref()),
            ResponseSource::Relayed { remaining, .. } => remaining.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

fn next_whole(bytes: &mut Option<Bytes>, trailers: &mut Option<HeaderMap>) -> Option<Result<Frame<Bytes>, BoxError>> {
    let data = bytes.take().map(Frame::data);
    data.or_else(|| trailers.take().map(Frame::trailers)).map(Ok)
}

fn exactly(bytes: Option<&Bytes>) -> SizeHint {
    SizeHint::with_exact(bytes.map_or(0, length_of))
}

fn length_of(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The next frame, with its error in a form that may be held across an `await`.
pub(crate) async fn next_frame<B>(mut body: Pin<&mut B>) -> Option<Result<Frame<Bytes>, BoxError>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    body.frame().await.map(|frame| frame.map_err(Into::into))
}
