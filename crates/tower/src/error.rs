//! What an inner service knows about a failure, and the layer must know.

use std::error::Error;

// === types ===

/// The error of whoever is called.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A call of the upstream that brought no whole response.
///
/// An inner service whose error is this type is answered for by the layer with a problem document,
/// and its `kind` decides whether the claim is released or the outcome is lost. Errors of any other
/// type count as a lost outcome and reach the caller unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.kind.text())]
pub struct UpstreamError {
    kind: UpstreamErrorKind,
    source: Option<BoxError>,
}

/// How far a call got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamErrorKind {
    /// Not one byte was sent: no connection, no name, TLS refused. A repeat is safe.
    Unreachable,
    /// Something was sent, and the connection ended before the response did.
    Failed,
    /// Something was sent, and no response came in time.
    Timeout,
}

// === impl UpstreamError ===

impl UpstreamError {
    /// A failure of this kind, with the client library's error behind it.
    #[must_use]
    pub fn new(kind: UpstreamErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// No response within the time allowed.
    #[must_use]
    pub fn timeout() -> Self {
        Self { kind: UpstreamErrorKind::Timeout, source: None }
    }

    /// How far the call got.
    #[must_use]
    pub fn kind(&self) -> UpstreamErrorKind {
        self.kind
    }
}

// === impl UpstreamErrorKind ===

impl UpstreamErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "the upstream could not be reached, nothing was sent",
            Self::Failed => "the connection to the upstream ended before its response did",
            Self::Timeout => "the upstream did not answer in time",
        }
    }
}
