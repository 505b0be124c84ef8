//! What the store says of itself, counted.

use std::sync::atomic::AtomicU64;

use oncegate_store::observer::{Event, Observer};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::{
    BATCH_BUCKETS, BREAKER_OPEN, BREAKER_OPENINGS, Metrics, OUTBOX_ENTRIES, OUTBOX_LAG, OUTBOX_LATE, OUTBOX_POISON,
    STORE_BATCH, STORE_SIZE,
};

/// What stays 0 is what this store does not have.
pub(super) struct StoreFigures {
    batch: Histogram,
    size: Gauge,
    breaker_open: Gauge,
    breaker_openings: Counter,
    outbox_entries: Gauge,
    outbox_poison: Counter,
    outbox_late: Counter,
    outbox_lag: Gauge<f64, AtomicU64>,
}

// === impl StoreFigures ===

impl Default for StoreFigures {
    fn default() -> Self {
        Self {
            batch: Histogram::new(BATCH_BUCKETS),
            size: Gauge::default(),
            breaker_open: Gauge::default(),
            breaker_openings: Counter::default(),
            outbox_entries: Gauge::default(),
            outbox_poison: Counter::default(),
            outbox_late: Counter::default(),
            outbox_lag: Gauge::default(),
        }
    }
}

impl StoreFigures {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(STORE_BATCH, "Verbs that one transaction of the store carried", self.batch.clone());
        let help = "How much room the records and their responses take";
        registry.register_with_unit(STORE_SIZE, help, Unit::Bytes, self.size.clone());
        let help = "Whether the front is left alone since it failed";
        registry.register(BREAKER_OPEN, help, self.breaker_open.clone());
        registry.register(BREAKER_OPENINGS, "How often that began", self.breaker_openings.clone());
        let help = "Writes that the front has acknowledged and the back does not have yet";
        registry.register(OUTBOX_ENTRIES, help, self.outbox_entries.clone());
        let help = "Entries of the outbox that could not be applied and were set aside";
        registry.register(OUTBOX_POISON, help, self.outbox_poison.clone());
        let help = "Completions of the outbox that were answered and that the back does not keep";
        registry.register(OUTBOX_LATE, help, self.outbox_late.clone());
        registry.register_with_unit(
            OUTBOX_LAG,
            "How old the oldest of them is",
            Unit::Seconds,
            self.outbox_lag.clone(),
        );
    }
}

impl Observer for Metrics {
    fn observe(&self, event: &Event) {
        let figures = &self.of_store;
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match *event {
            Event::Batch { verbs } => figures.batch.observe(f64::from(u32::try_from(verbs).unwrap_or(u32::MAX))),
            Event::Size { bytes } => drop(figures.size.set(number(bytes))),
            Event::Breaker { is_open } => {
                let was_open = figures.breaker_open.set(i64::from(is_open)) == 1;
                figures.breaker_openings.inc_by(u64::from(is_open && !was_open));
            }
            Event::Poison => drop(figures.outbox_poison.inc()),
            Event::TooLate => drop(figures.outbox_late.inc()),
            Event::Outbox { entries, lag } => {
                figures.outbox_entries.set(number(entries));
                figures.outbox_lag.set(lag.as_secs_f64());
            }
            // One that a later store has and this gate does not count yet.
            _ => {}
        }
    }
}
