//! Rates, shares and durations over time, from what was counted.

use std::{collections::BTreeMap, time::Duration};

use oncegate_tower::Outcome;
use serde_json::{Value, json};

use super::{
    History,
    sample::{Answers, Gauges, Sample},
};

// === types ===

/// What the charts show. Each line has one value per moment, and `None` where nothing can be said.
#[derive(Debug, Default)]
pub(in crate::admin) struct Series {
    /// Of each moment: how long ago it was when the last sample was taken, in seconds.
    pub(in crate::admin) ago: Vec<f64>,
    /// Answers per second; outcomes that did not occur are left out.
    pub(in crate::admin) outcomes: Vec<(&'static str, Line)>,
    /// 409 among 409 and 2xx, by route, the busiest first.
    pub(in crate::admin) conflicts: Vec<(String, Line)>,
    pub(in crate::admin) claim: Latency,
    pub(in crate::admin) upstream: Latency,
    pub(in crate::admin) in_flight: Line,
    pub(in crate::admin) abandoned: Line,
    pub(in crate::admin) unknown: Line,
    pub(in crate::admin) completed: Line,
    pub(in crate::admin) executions: Line,
    pub(in crate::admin) outbox_lag: Line,
}

pub(in crate::admin) type Line = Vec<Option<f64>>;

/// Of durations, in seconds.
#[derive(Debug, Default)]
pub(in crate::admin) struct Latency {
    pub(in crate::admin) median: Line,
    pub(in crate::admin) p99: Line,
}

/// Over so long a time before each moment: a second alone is too short to be read where there is little to count.
const WINDOW: Duration = Duration::from_secs(10);

// === impl Series ===

impl Series {
    /// From samples, the oldest first.
    pub(super) fn of(samples: &[Sample]) -> Self {
        let Some(last) = samples.last() else { return Self::default() };
        let spans = Spans::of(samples);
        let gauge = |read: fn(&Gauges) -> Option<f64>| samples.iter().map(|sample| read(&sample.gauges)).collect();
        Self {
            ago: samples.iter().map(|sample| (last.elapsed - sample.elapsed).as_secs_f64()).collect(),
            outcomes: outcomes(&spans, last),
            conflicts: conflicts(&spans, last),
            claim: latency(&spans, |before, after, share| after.claims.quantile_since(&before.claims, share)),
            upstream: latency(&spans, |before, after, share| after.upstream.quantile_since(&before.upstream, share)),
            in_flight: gauge(|gauges| gauges.in_flight),
            abandoned: gauge(|gauges| gauges.abandoned),
            unknown: gauge(|gauges| gauges.unknown),
            completed: gauge(|gauges| gauges.completed),
            executions: gauge(|gauges| gauges.executions),
            outbox_lag: gauge(|gauges| gauges.outbox_lag),
        }
    }

    /// As `/api/history` answers it.
    pub(in crate::admin) fn json(&self) -> Value {
        let outcomes: BTreeMap<_, _> = self.outcomes.iter().map(|(name, line)| (name, line)).collect();
        let conflicts: BTreeMap<_, _> = self.conflicts.iter().map(|(route, line)| (route, line)).collect();
        json!({
            "interval_seconds": History::INTERVAL.as_secs_f64(),
            "window_seconds": WINDOW.as_secs_f64(),
            "seconds_ago": self.ago,
            "outcomes_per_second": outcomes,
            "conflict_share": conflicts,
            "claim_seconds": self.claim.json(),
            "upstream_seconds": self.upstream.json(),
            "in_flight_records": self.in_flight,
            "abandoned_records": self.abandoned,
            "unknown_records": self.unknown,
            "completed_records": self.completed,
            "executions": self.executions,
            "outbox_lag_seconds": self.outbox_lag,
        })
    }
}

fn outcomes(spans: &Spans<'_>, last: &Sample) -> Vec<(&'static str, Line)> {
    let occurred = Outcome::ALL.into_iter().filter(|&outcome| last.outcomes[outcome as usize] > 0.0);
    let rate = |outcome: Outcome| {
        spans.map(|before, after| {
            let count = after.outcomes[outcome as usize] - before.outcomes[outcome as usize];
            Some(count / (after.elapsed - before.elapsed).as_secs_f64())
        })
    };
    occurred.map(|outcome| (outcome.as_str(), rate(outcome))).collect()
}

fn conflicts(spans: &Spans<'_>, last: &Sample) -> Vec<(String, Line)> {
    let share = |route: &String| {
        spans.map(|before, after| {
            let of = |sample: &Sample| sample.routes.get(route).copied().unwrap_or_default();
            let (before, after) = (of(before), of(after));
            let [conflicts, successes] =
                [after.conflicts - before.conflicts, after.successes - before.successes].map(|count| count.max(0.0));
            (conflicts + successes > 0.0).then(|| conflicts / (conflicts + successes))
        })
    };
    let total = |answers: &Answers| answers.conflicts + answers.successes;
    let mut routes: Vec<_> = last.routes.iter().filter(|(_, answers)| total(answers) > 0.0).collect();
    routes.sort_by(|(_, one), (_, other)| total(other).total_cmp(&total(one)));
    routes.into_iter().map(|(route, _)| (route.clone(), share(route))).collect()
}

fn latency(spans: &Spans<'_>, quantile: impl Fn(&Sample, &Sample, f64) -> Option<f64>) -> Latency {
    let line = |share| spans.map(|before, after| quantile(before, after, share));
    Latency { median: line(0.5), p99: line(0.99) }
}

// === impl Latency ===

impl Latency {
    fn json(&self) -> Value {
        json!({ "median": self.median, "p99": self.p99 })
    }
}

// === spans ===

/// Each sample together with the one that stands [`WINDOW`] before it, or as near to that as there is one.
struct Spans<'a>(Vec<Option<(&'a Sample, &'a Sample)>>);

impl<'a> Spans<'a> {
    fn of(samples: &'a [Sample]) -> Self {
        let mut first = 0;
        let span = |(index, after): (usize, &'a Sample)| {
            while samples[first].elapsed + WINDOW < after.elapsed && first + 1 < index {
                first += 1;
            }
            (first < index).then(|| (&samples[first], after))
        };
        Self(samples.iter().enumerate().map(span).collect())
    }

    fn map(&self, value: impl Fn(&'a Sample, &'a Sample) -> Option<f64>) -> Line {
        self.0.iter().map(|span| span.and_then(|(before, after)| value(before, after))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sample a second: so many executed, and so many told that somebody else executes.
    fn samples(counts: &[(f64, f64)]) -> Vec<Sample> {
        let sample = |(second, &(successes, conflicts)): (u64, &(f64, f64))| {
            let mut sample = Sample { elapsed: Duration::from_secs(second), ..Sample::default() };
            sample.outcomes[Outcome::Executed as usize] = successes;
            sample.outcomes[Outcome::InFlight as usize] = conflicts;
            sample.routes.insert("pay".to_owned(), Answers { successes, conflicts });
            sample
        };
        (0..).zip(counts).map(sample).collect()
    }

    #[test]
    fn a_rate_is_over_the_ten_seconds_before() {
        let mut counts = vec![(0.0, 0.0); 3];
        counts.extend([(20.0, 0.0); 12]);
        let series = Series::of(&samples(&counts));
        let (name, executed) = &series.outcomes[0];
        assert_eq!((*name, series.outcomes.len()), ("executed", 1), "what did not occur is left out");
        assert_eq!(executed[0], None, "one sample says nothing");
        assert_eq!((executed[2], executed[3]), (Some(0.0), Some(20.0 / 3.0)));
        assert_eq!((executed[12], executed[13]), (Some(2.0), Some(0.0)), "the window has passed it");
        assert_eq!((series.ago[0], series.ago[14]), (14.0, 0.0));
    }

    #[test]
    fn the_share_of_409_is_told_where_there_was_an_answer() {
        let series = Series::of(&samples(&[(0.0, 0.0), (0.0, 0.0), (3.0, 1.0)]));
        assert_eq!(series.conflicts, [("pay".to_owned(), vec![None, None, Some(0.25)])]);
        let object = series.json();
        assert_eq!(object["conflict_share"]["pay"], json!([null, null, 0.25]));
        assert_eq!(object["outcomes_per_second"]["in_flight"], json!([null, 0.0, 0.5]));
    }

    #[test]
    fn nothing_is_said_before_the_first_sample() {
        assert_eq!(Series::of(&[]).json()["seconds_ago"], json!([]));
    }
}
