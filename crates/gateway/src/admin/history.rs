//! The last minutes of what is counted, for the charts.
//!
//! It reads the same text as Prometheus does, once a second, so that the charts show what `/metrics` says, by the same
//! names. What is kept is bounded: so many samples, each as large as there are routes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use oncegate_tower::Handle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

mod exposition;
mod sample;
mod series;

use self::sample::Sample;
pub(super) use self::series::{Latency, Line, Series};
use crate::metrics::Metrics;

/// What was counted lately.
#[derive(Debug)]
pub(super) struct History {
    metrics: Arc<Metrics>,
    /// Knows how many executions there are now.
    executions: Handle,
    start: Instant,
    /// The oldest first.
    samples: Mutex<VecDeque<Sample>>,
}

impl History {
    /// Between two samples. Reading them costs a fraction of a millisecond.
    pub(super) const INTERVAL: Duration = Duration::from_secs(1);
    /// Five minutes: long enough to see what an incident began with.
    const SAMPLES_MAX: usize = 300;

    pub(super) fn new(metrics: Arc<Metrics>, executions: Handle) -> Self {
        Self { metrics, executions, start: Instant::now(), samples: Mutex::default() }
    }

    /// Samples again and again until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(Self::INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.run_once();
        }
    }

    fn run_once(&self) {
        let text = self.metrics.encode(self.executions.executing());
        let sample = Sample::read(&text, self.start.elapsed());
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        while samples.len() >= Self::SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// What the charts show, and programs get.
    pub(super) fn series(&self) -> Series {
        Series::of(self.samples.lock().unwrap_or_else(PoisonError::into_inner).make_contiguous())
    }
}
