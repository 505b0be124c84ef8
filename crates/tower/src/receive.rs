//! The request's body: read once, fingerprinted on the way, and kept for the inner service.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header, request::Parts};
use http_body::Body;
use oncegate_core::{
    Fingerprint,
    fingerprint::{Fingerprinter, RequestHead, Rules},
};

use self::spool::Spool;
use crate::{
    BoxError, Problem, RequestBody, Route,
    body::next_frame,
    route::{normalised, requested_uri},
};

mod spool;

// === types ===

/// A request's body, whole.
#[derive(Debug)]
pub(crate) struct Received {
    content: Content,
    trailers: Option<HeaderMap>,
    pub(crate) fingerprint: Fingerprint,
}

#[derive(Debug)]
enum Content {
    Kept(Bytes),
    Spooled(Spool),
}

/// Why a body was not read whole. Nothing of it is forwarded.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    /// Longer than the route allows, as sent or decoded.
    TooLarge,
    /// The client did not send all of it.
    Client(BoxError),
    /// The temporary file failed.
    Spool(io::Error),
}

// === receive ===

/// Above this many bytes a body is kept in a temporary file.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Refuses by the declared length, before the body is asked for: no `100 Continue` goes out then.
pub(crate) fn check_length(route: &Route, headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match declared {
        Some(length) if length > route.max_request_body => Err(Problem::request_too_large(route.max_request_body)),
        Some(_) | None => Ok(()),
    }
}

/// Reads the body whole. Dropping the future drops what was read.
pub(crate) async fn receive<B>(route: &Route, parts: &Parts, body: B) -> Result<Received, ReceiveError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let mut fingerprinter = fingerprinter(&route.rules, parts);
    let mut content = Gathering::default();
    let mut trailers = None;
    while let Some(frame) = next_frame(body.as_mut()).await {
        match frame.map_err(ReceiveError::Client)?.into_data() {
            Ok(data) => {
                if content.length().saturating_add(length_of(&data)) > route.max_request_body {
                    return Err(ReceiveError::TooLarge);
                }
                fingerprinter.update(&data).map_err(|_| ReceiveError::TooLarge)?;
                content.push(data).await.map_err(ReceiveError::Spool)?;
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    let fingerprint = fingerprinter.finish().map_err(|_| ReceiveError::TooLarge)?;
    Ok(Received { content: content.finish().await.map_err(ReceiveError::Spool)?, trailers, fingerprint })
}

fn fingerprinter(rules: &Rules, parts: &Parts) -> Fingerprinter {
    let uri = requested_uri(&parts.extensions, &parts.uri);
    let path = normalised(uri.path());
    let value = |name| parts.headers.get(name).map(http::HeaderValue::as_bytes);
    Fingerprinter::new(
        rules,
        &RequestHead {
            method: parts.method.as_str(),
            path: &path,
            query: uri.query(),
            content_type: value(header::CONTENT_TYPE),
            content_encoding: value(header::CONTENT_ENCODING),
        },
    )
}

fn length_of(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

// === impl Received ===

impl Received {
    /// Has somebody read all of it, from its beginning; what lies in a file, on a thread where that may take a while.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn io::Read) -> T + Send + 'static,
    ) -> io::Result<T> {
        match &self.content {
            Content::Kept(bytes) => Ok(read(&mut &bytes[..])),
            Content::Spooled(spool) => spool.read_by(read).await,
        }
    }

    async fn bytes(&self) -> io::Result<Bytes> {
        match &self.content {
            Content::Kept(bytes) => Ok(bytes.clone()),
            Content::Spooled(spool) => spool.read().await,
        }
    }

    /// The fingerprint that this request has under other rules.
    pub(crate) async fn fingerprint_under(&self, rules: &Rules, parts: &Parts) -> Option<Fingerprint> {
        let bytes = self.bytes().await.ok()?;
        let mut fingerprinter = fingerprinter(rules, parts);
        fingerprinter.update(&bytes).ok()?;
        fingerprinter.finish().ok()
    }

    /// The body again, from its beginning.
    pub(crate) fn into_body<B>(self) -> RequestBody<B> {
        match self.content {
            Content::Kept(bytes) => RequestBody::kept(bytes, self.trailers),
            Content::Spooled(spool) => spool.into_body(self.trailers),
        }
    }
}

// === Gathering ===

/// What has been read so far: one chunk as it came, several copied together, or a file.
#[derive(Debug, Default)]
enum Gathering {
    #[default]
    Nothing,
    One(Bytes),
    Several(BytesMut),
    File(Spool),
}

impl Gathering {
    fn length(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => length_of(bytes),
            Self::Several(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::File(spool) => spool.length(),
        }
    }

    async fn push(&mut self, data: Bytes) -> io::Result<()> {
        *self = match std::mem::take(self) {
            Self::Nothing if data.len() <= KEPT_BYTES_MAX => Self::One(data),
            Self::Nothing => Self::File(Spool::of(&[&data]).await?),
            Self::One(first) if first.len() + data.len() <= KEPT_BYTES_MAX => {
                let mut several = BytesMut::with_capacity((first.len() + data.len()) * 2);
                several.extend_from_slice(&first);
                several.extend_from_slice(&data);
                Self::Several(several)
            }
            Self::One(first) => Self::File(Spool::of(&[&first, &data]).await?),
            Self::Several(mut several) if several.len() + data.len() <= KEPT_BYTES_MAX => {
                several.extend_from_slice(&data);
                Self::Several(several)
            }
            Self::Several(several) => Self::File(Spool::of(&[&several, &data]).await?),
            Self::File(mut spool) => {
                spool.push(&data).await?;
                Self::File(spool)
            }
        };
        Ok(())
    }

    async fn finish(self) -> io::Result<Content> {
        Ok(match self {
            Self::Nothing => Content::Kept(Bytes::new()),
            Self::One(bytes) => Content::Kept(bytes),
            Self::Several(bytes) => Content::Kept(bytes.freeze()),
            Self::File(mut spool) => {
                spool.flush().await?;
                Content::Spooled(spool)
            }
        })
    }
}
