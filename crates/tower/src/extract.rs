//! What axum users need: the lease as an argument of a handler, and the whole URI of a nested one.

use axum::extract::{FromRequestParts, OptionalFromRequestParts, OriginalUri};
use http::{Extensions, StatusCode, Uri, request::Parts};

use crate::CurrentLease;

impl<S: Sync> FromRequestParts<S> for CurrentLease {
    type Rejection = (StatusCode, &'static str);

    /// Fails with 500 on requests that are not guarded; take `Option<CurrentLease>` where there are
    /// such.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let missing = "no lease: the request has no idempotency key, or the layer is not around this handler";
        parts.extensions.get().cloned().ok_or((StatusCode::INTERNAL_SERVER_ERROR, missing))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for CurrentLease {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(parts.extensions.get().cloned())
    }
}

/// The URI as the client sent it: nesting takes a prefix away, and `/a/pay` is not `/b/pay`.
pub(crate) fn original_uri(extensions: &Extensions) -> Option<&Uri> {
    extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri)
}
