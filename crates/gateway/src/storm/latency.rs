//! Latencies by class of answer.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::burst::{Attempt, Ending};
use super::tally::{AnswerClass, class};

/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;

/// One histogram for each class that is told apart, in microseconds.
#[derive(Debug)]
pub(super) struct Latencies {
    executed: Histogram<u64>,
    replayed: Histogram<u64>,
    status_409: Histogram<u64>,
    all: Histogram<u64>,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) answers: u64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

// === impl Latencies ===

impl Latencies {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(DIGITS).expect("3 digits are within the limits of the histogram");
        Self { executed: histogram(), replayed: histogram(), status_409: histogram(), all: histogram() }
    }

    /// Records an attempt, if it was answered.
    pub(super) fn record(&mut self, attempt: &Attempt) {
        let Ending::Answered(answer) = &attempt.ending else { return };
        let microseconds = u64::try_from(answer.latency.as_micros()).unwrap_or(u64::MAX);
        let class = match class(answer) {
            AnswerClass::Status2xx => Some(&mut self.executed),
            AnswerClass::Replayed => Some(&mut self.replayed),
            AnswerClass::Status409 => Some(&mut self.status_409),
            AnswerClass::Status422 | AnswerClass::Other4xx | AnswerClass::Status5xx | AnswerClass::Other => None,
        };
        for histogram in class.into_iter().chain([&mut self.all]) {
            histogram.record(microseconds).expect("a histogram without a maximum grows as needed");
        }
    }

    /// The percentiles of every class that occurred, by name, in the order of the table.
    pub(super) fn percentiles(&self) -> Vec<(&'static str, Percentiles)> {
        let classes =
            [("executed", &self.executed), ("replayed", &self.replayed), ("409", &self.status_409), ("all", &self.all)];
        let occurred = classes.into_iter().filter(|(_, histogram)| !histogram.is_empty());
        occurred.map(|(name, histogram)| (name, Percentiles::of(histogram))).collect()
    }
}

// === impl Percentiles ===

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| milliseconds(histogram.value_at_quantile(quantile));
        Self { answers: histogram.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: milliseconds(histogram.max()) }
    }
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_milliseconds() {
        let mut histogram = Histogram::new(DIGITS).unwrap();
        for milliseconds in 1..=100 {
            histogram.record(milliseconds * 1000).unwrap();
        }

        let Percentiles { answers, p50, p90, p99, max } = Percentiles::of(&histogram);

        assert_eq!(answers, 100);
        for (measured, expected) in [(p50, 50.0), (p90, 90.0), (p99, 99.0), (max, 100.0)] {
            assert!((measured - expected).abs() <= expected / 500.0, "{measured} is not {expected}");
        }
    }
}
