//! What was counted up to one moment.

use std::{collections::BTreeMap, time::Duration};

use oncegate_tower::Outcome;

use super::exposition::{self, Line};

// === types ===

/// Counters as they stood, and gauges as they were.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Since the process started to sample.
    pub(super) elapsed: Duration,
    /// Answers by [`Outcome`], in its order.
    pub(super) outcomes: [f64; Outcome::ALL.len()],
    pub(super) routes: BTreeMap<String, Answers>,
    pub(super) claims: Buckets,
    pub(super) upstream: Buckets,
    pub(super) gauges: Gauges,
}

/// Answers of one route.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answers {
    /// 2xx.
    pub(super) successes: f64,
    /// 409 because somebody else executes.
    pub(super) conflicts: f64,
}

/// A histogram: how many observations were no longer than each bound, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Buckets(Vec<(f64, f64)>);

/// How much there is; `None` where nobody measures it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauges {
    pub(super) in_flight: Option<f64>,
    pub(super) abandoned: Option<f64>,
    pub(super) unknown: Option<f64>,
    pub(super) completed: Option<f64>,
    pub(super) executions: Option<f64>,
    pub(super) outbox_lag: Option<f64>,
}

// === impl Sample ===

impl Sample {
    /// Reads the text of `/metrics`.
    pub(super) fn read(text: &str, elapsed: Duration) -> Self {
        let mut sample = Self { elapsed, ..Self::default() };
        for line in exposition::lines(text) {
            let gauges = &mut sample.gauges;
            match line.name {
                "oncegate_requests_total" => sample.answered(&line),
                "oncegate_claim_duration_seconds_bucket" => sample.claims.add(&line),
                "oncegate_upstream_duration_seconds_bucket" => sample.upstream.add(&line),
                "oncegate_in_flight_records" => gauges.in_flight = Some(line.value),
                "oncegate_abandoned_records" => gauges.abandoned = Some(line.value),
                "oncegate_unknown_records" => gauges.unknown = Some(line.value),
                "oncegate_completed_records" => gauges.completed = Some(line.value),
                "oncegate_executions" => gauges.executions = Some(line.value),
                "oncegate_outbox_lag_seconds" => gauges.outbox_lag = Some(line.value),
                _ => {}
            }
        }
        sample
    }

    fn answered(&mut self, line: &Line<'_>) {
        let [route, outcome, status] = ["route", "outcome", "status"].map(|name| line.label(name).unwrap_or_default());
        let Some(outcome) = Outcome::ALL.into_iter().find(|each| each.as_str() == outcome) else { return };
        self.outcomes[outcome as usize] += line.value;
        let answers = self.routes.entry(route).or_default();
        if status.starts_with('2') {
            answers.successes += line.value;
        } else if outcome == Outcome::InFlight {
            answers.conflicts += line.value;
        }
    }
}

// === impl Buckets ===

impl Buckets {
    /// Adds the bucket of one series; all series of a family have the same bounds.
    fn add(&mut self, line: &Line<'_>) {
        let Some(bound) = line.label("le").and_then(|bound| bound.parse::<f64>().ok()) else { return };
        match self.0.iter_mut().find(|(each, _)| *each == bound) {
            Some((_, count)) => *count += line.value,
            None => self.0.push((bound, line.value)),
        }
    }

    /// The duration below which this share of what was observed since `earlier` stayed; `None` if nothing was.
    ///
    /// Within a bucket observations count as spread evenly, as Prometheus has it; beyond the last bound the duration is
    /// only known to be longer, and the bound is what is told.
    pub(super) fn quantile_since(&self, earlier: &Self, share: f64) -> Option<f64> {
        let before = |bound: f64| earlier.0.iter().find(|(each, _)| *each == bound).map_or(0.0, |(_, count)| *count);
        let counts: Vec<_> = self.0.iter().map(|&(bound, count)| (bound, count - before(bound))).collect();
        let total = counts.last().map(|(_, count)| *count).filter(|&total| total > 0.0)?;
        let (wanted, mut below) = (share * total, (0.0, 0.0));
        for &(bound, count) in &counts {
            if count >= wanted {
                if bound.is_infinite() {
                    break;
                }
                let within = (wanted - below.1) / (count - below.1).max(f64::MIN_POSITIVE);
                return Some(below.0 + (bound - below.0) * within.clamp(0.0, 1.0));
            }
            below = (bound, count);
        }
        Some(below.0)
    }
}

#[cfg(test)]
mod tests {
    use oncegate_core::{Backend, Census};
    use oncegate_tower::{Event, Observer as _, Route, Routes};

    use super::*;
    use crate::metrics::Metrics;

    /// The names above are those that are exported.
    #[test]
    fn a_sample_finds_what_is_counted() {
        let metrics = Metrics::new(&Routes::all(Route::gateway("pay", Backend::Plain)));
        let answered = |outcome, status| metrics.observe(&Event::Answered { route: "pay", outcome, status });
        answered(Outcome::Executed, 201);
        answered(Outcome::Replayed, 200);
        answered(Outcome::InFlight, 409);
        answered(Outcome::Mismatch, 422);
        let duration = Duration::from_millis(3);
        metrics.observe(&Event::Claimed { duration });
        metrics.observe(&Event::Executed { route: "pay", duration });
        metrics.counted(&Census { in_flight: 1, abandoned: 2, completed: 3, unknown: 4 });
        let sample = Sample::read(&metrics.encode(5), Duration::ZERO);
        assert_eq!(sample.outcomes[Outcome::Executed as usize], 1.0);
        assert_eq!(sample.outcomes.iter().sum::<f64>(), 4.0);
        let Answers { successes, conflicts } = sample.routes["pay"];
        assert_eq!((successes, conflicts), (2.0, 1.0));
        let Gauges { in_flight, abandoned, unknown, completed, executions, outbox_lag: _ } = sample.gauges;
        assert_eq!([in_flight, abandoned, completed, unknown, executions], [1.0, 2.0, 3.0, 4.0, 5.0].map(Some));
        for buckets in [&sample.claims, &sample.upstream] {
            let median = buckets.quantile_since(&Buckets::default(), 0.5).unwrap();
            assert!((0.0025..=0.005).contains(&median), "{median}");
        }
    }

    fn buckets(counts: [f64; 3]) -> Buckets {
        Buckets([0.1, 1.0, f64::INFINITY].into_iter().zip(counts).collect())
    }

    #[test]
    fn a_quantile_is_of_what_came_since() {
        let (before, after) = (buckets([90.0, 90.0, 90.0]), buckets([90.0, 100.0, 100.0]));
        assert_eq!(after.quantile_since(&before, 0.5), Some(0.1 + 0.9 / 2.0));
        assert_eq!(after.quantile_since(&after, 0.5), None, "nothing came");
        assert_eq!(buckets([0.0, 0.0, 4.0]).quantile_since(&Buckets::default(), 0.5), Some(1.0), "at least");
        assert_eq!(Buckets::default().quantile_since(&before, 0.5), None);
    }
}
