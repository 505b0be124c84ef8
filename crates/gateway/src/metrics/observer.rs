//! What the layer says, counted.

use oncegate_tower::{Event, Observer, UpstreamErrorKind};

use super::{
    Metrics,
    labels::{StaleLabels, StoreErrorLabels, kind_name},
    observe,
};
use crate::proxy::Failed;

impl Observer for Metrics {
    fn observe(&self, event: &Event<'_>) {
        match *event {
            Event::Answered { route, outcome, status } => self.routes.answered(route, outcome, status),
            Event::Failed { route, error } => {
                let error = error.map(|error| error as &(dyn std::error::Error + 'static));
                let failed = error.map_or(Failed::Upstream(UpstreamErrorKind::Failed), Failed::by);
                let (outcome, status) = failed.counted();
                self.routes.answered(route, outcome, status);
            }
            Event::Claimed { duration } => observe(&self.claim_duration, duration),
            Event::Completed { duration } => observe(&self.completion_duration, duration),
            Event::Executed { route, duration } => self.routes.executed(route, duration),
            Event::TakenOver { .. } => drop(self.takeovers.inc()),
            Event::Coalesced => drop(self.coalesced.inc()),
            Event::Stale { verb, .. } => drop(self.stale_writes.get_or_create(&StaleLabels { verb }).inc()),
            Event::StoreFailed { verb, kind } => {
                let labels = StoreErrorLabels { verb, kind: kind_name(kind) };
                self.store_errors.get_or_create(&labels).inc();
            }
            Event::Doubted => drop(self.doubts.inc()),
            Event::Marked => drop(self.marked.inc()),
            Event::Anonymous => drop(self.anonymous.inc()),
            Event::SplitScope => drop(self.split_scopes.inc()),
            Event::Uncooperative => drop(self.uncooperative.inc()),
            Event::FailedOpen => drop(self.failed_open.inc()),
            Event::ClientLeft => drop(self.clients_left.inc()),
            // The duty counts it, once it is noted.
            Event::Suspected { .. } => {}
            // An event that a later layer has and this gate does not count yet.
            _ => {}
        }
    }
}
