//! The labels of each family: words of a few fixed sets, and the names of routes.

use std::sync::Arc;

use oncegate_core::ErrorKind;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// Labels of `oncegate_requests_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: Arc<str>,
    pub(super) outcome: &'static str,
    pub(super) status: StatusLabel,
}

/// A status code. What a backend makes up beyond those of HTTP (RFC 9110 section 15) is `other`, since it must not make
/// series without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StatusLabel(u16);

/// Labels of what is told apart by route only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) route: Arc<str>,
}

/// Labels of `oncegate_suspected_duplicates_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SuspectLabels {
    pub(super) route: Arc<str>,
    /// `known`, or `anonymous` where nothing tells who calls, so that there may be two callers.
    pub(super) scope: &'static str,
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

// === impl SuspectLabels ===

impl SuspectLabels {
    pub(super) fn new(route: &Arc<str>, is_anonymous: bool) -> Self {
        Self { route: Arc::clone(route), scope: if is_anonymous { "anonymous" } else { "known" } }
    }
}

// === impl StatusLabel ===

impl StatusLabel {
    const FIRST: u16 = 100;
    const OTHER: u16 = 600;
    /// How many there are.
    pub(super) const COUNT: usize = (Self::OTHER - Self::FIRST + 1) as usize;

    pub(super) fn of(code: u16) -> Self {
        Self(code.clamp(Self::FIRST, Self::OTHER))
    }

    /// Where it stands among all of them.
    pub(super) fn index(self) -> usize {
        usize::from(self.0 - Self::FIRST)
    }
}

impl EncodeLabelValue for StatusLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        if self.0 == Self::OTHER { "other".encode(encoder) } else { self.0.encode(encoder) }
    }
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
