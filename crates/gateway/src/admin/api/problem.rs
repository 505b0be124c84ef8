//! Errors of the API as problem documents (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use oncegate_core::StoreError;
use serde_json::{Value, json};

/// Why the API did not do what was asked.
#[derive(Debug)]
pub(in crate::admin) struct Problem {
    status: StatusCode,
    document: Value,
}

impl Problem {
    pub(in crate::admin) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let document = json!({
            "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail.into()
        });
        Self { status, document }
    }

    /// 400: this field or parameter is wrong.
    pub(super) fn field(field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail).with("field", json!(field))
    }

    /// What it is as an answer.
    pub(in crate::admin) fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence for people.
    pub(in crate::admin) fn detail(&self) -> &str {
        self.document["detail"].as_str().unwrap_or_default()
    }

    /// Which field or parameter is wrong, if it is one.
    pub(in crate::admin) fn field_name(&self) -> Option<&str> {
        self.document["field"].as_str()
    }

    /// One more member.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.document[name] = value;
        self
    }
}

impl From<StoreError> for Problem {
    /// Operators may read what stands in the log, too.
    fn from(error: StoreError) -> Self {
        tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be asked");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "application/problem+json"), (header::CACHE_CONTROL, "no-store")];
        (self.status, headers, self.document.to_string()).into_response()
    }
}
