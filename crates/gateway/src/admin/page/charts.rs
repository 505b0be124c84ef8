//! Which charts there are.

use super::{
    chart::{self, Chart, Drawn, Unit},
    facts,
    html::Html,
};
use crate::admin::{
    Admin,
    ages::{AgeCounts, BOUNDS},
    history::{Latency, Line, Series},
};

/// Each has a colour of its own; more routes than that are found in `/metrics`.
const ROUTE_CLASSES: [&str; 6] = ["c1", "c2", "c3", "c4", "c5", "c6"];

/// The numbers of this moment, and the charts.
pub(super) async fn all(admin: &Admin) -> Html {
    let (series, ages) = (admin.history.series(), admin.ages.of(&admin.desk).await);
    let charts = [outcomes(&series), conflicts(&series)]
        .into_iter()
        .chain([latency("Claims", "how long the store took", &series.ago, &series.claim)])
        .chain([latency("Service", "how long it took to the head of its answer", &series.ago, &series.upstream)])
        .chain([ages_of(ages), records(&series)])
        .chain(outbox(&series));
    let values = [("numbers", numbers(&series)), ("charts", charts.collect())];
    Html::filled("<dl class=\"numbers\">{{numbers}}</dl>\n<div class=\"charts\">\n{{charts}}</div>\n", &values)
}

fn numbers(series: &Series) -> Html {
    let number = |(name, line, is_alarming): (&'static str, &Line, bool)| {
        let last = line.last().copied().flatten();
        let class = if is_alarming && last.is_some_and(|last| last > 0.0) { "alarm" } else { "" };
        let shown = last.map_or("–".to_owned(), |last| format!("{last:.0}"));
        let values = [("class", Html::of(class)), ("name", Html::of(name)), ("shown", Html::text(shown))];
        Html::filled("<div class=\"{{class}}\"><dt>{{name}}</dt><dd>{{shown}}</dd></div>\n", &values)
    };
    [
        ("unknown", &series.unknown, true),
        ("abandoned", &series.abandoned, true),
        ("in flight", &series.in_flight, false),
        ("completed", &series.completed, false),
        ("executing here", &series.executions, false),
    ]
    .into_iter()
    .map(number)
    .collect()
}

fn outcomes(series: &Series) -> Html {
    let lines = series.outcomes.iter().map(|(name, line)| Drawn { name, class: name, line }).collect();
    Chart { title: "Answers", hint: "per second, by outcome", unit: Unit::PerSecond, ago: &series.ago, lines }.draw()
}

fn conflicts(series: &Series) -> Html {
    let routes = series.conflicts.iter().zip(ROUTE_CLASSES);
    let lines = routes.map(|((name, line), class)| Drawn { name, class, line }).collect();
    let hint = "among 409 and 2xx, by route: clients repeat too eagerly, or the service became slow";
    Chart { title: "Share of 409", hint, unit: Unit::Share, ago: &series.ago, lines }.draw()
}

fn latency(title: &'static str, hint: &'static str, ago: &[f64], latency: &Latency) -> Html {
    let is_known = latency.median.iter().any(Option::is_some);
    let lines = [("median", "c1", &latency.median), ("99 %", "c2", &latency.p99)];
    let lines = lines.into_iter().filter(|_| is_known).map(|(name, class, line)| Drawn { name, class, line }).collect();
    Chart { title, hint, unit: Unit::Seconds, ago, lines }.draw()
}

fn ages_of(ages: Option<AgeCounts>) -> Html {
    let hint = match &ages {
        None => "the store does not say",
        Some(ages) if ages.is_cut => "since the first claim; the 1000 oldest of them",
        Some(_) => "since the first claim, of all gates on the store",
    };
    let bounds = BOUNDS.iter().map(|bound| format!("< {}", facts::length(*bound))).chain(["older".to_owned()]);
    let bars: Vec<_> = bounds.zip(ages.unwrap_or_default().counts).collect();
    chart::bars("In flight by age", hint, &bars)
}

fn records(series: &Series) -> Html {
    let lines = [
        ("in flight", "in_flight", &series.in_flight),
        ("abandoned", "unavailable", &series.abandoned),
        ("unknown", "unknown", &series.unknown),
    ];
    let lines = lines.into_iter().map(|(name, class, line)| Drawn { name, class, line }).collect();
    let hint = "records that are not completed, of all gates on the store";
    Chart { title: "Open records", hint, unit: Unit::Count, ago: &series.ago, lines }.draw()
}

/// Only where there is an outbox: of none the lag is always zero.
fn outbox(series: &Series) -> Option<Html> {
    let line = &series.outbox_lag;
    let lines = vec![Drawn { name: "lag", class: "c1", line }];
    let chart = Chart {
        title: "Outbox",
        hint: "how far PostgreSQL is behind Redis",
        unit: Unit::Seconds,
        ago: &series.ago,
        lines,
    };
    line.iter().flatten().any(|lag| *lag > 0.0).then(|| chart.draw())
}
