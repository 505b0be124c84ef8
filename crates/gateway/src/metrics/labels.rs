//! The labels of each family: words of a few fixed sets, and the names of routes.

use std::sync::Arc;

use oncegate_core::ErrorKind;
use prometheus_client::encoding::EncodeLabelSet;

/// Labels of `oncegate_requests_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: Arc<str>,
    pub(super) outcome: &'static str,
    /// The class, such as `2xx`: single codes would make too many series.
    pub(super) status: &'static str,
}

/// Labels of what is told apart by route only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) route: Arc<str>,
}

/// Labels of `oncegate_stale_writes_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StaleLabels {
    pub(super) verb: &'static str,
}

/// Labels of `oncegate_store_errors_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StoreErrorLabels {
    pub(super) verb: &'static str,
    pub(super) kind: &'static str,
}

/// Labels of `oncegate_reaped_records_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReapLabels {
    pub(super) what: &'static str,
}

/// Labels of `oncegate_config_reloads_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReloadLabels {
    pub(super) result: &'static str,
}

pub(super) fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Full => "full",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Collision => "collision",
        _ => "other",
    }
}
