//! What is counted, and that it is documented.

use std::{collections::BTreeSet, time::Duration};

use oncegate_core::{Backend, ErrorKind, Fence};
use oncegate_tower::{Event, Observer, Outcome, Route, UpstreamError};

use super::*;

fn metrics() -> Metrics {
    Metrics::new(&Routes::all(Route::gateway("defaults", Backend::Plain)))
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|each| each == line), "no line {line:?} in\n{text}");
}

#[test]
fn requests_are_counted_by_route_outcome_and_status() {
    let metrics = metrics();
    let answered = |outcome, status| metrics.observe(&Event::Answered { route: "defaults", outcome, status });
    answered(Outcome::Executed, 201);
    answered(Outcome::Executed, 200);
    answered(Outcome::InFlight, 409);
    answered(Outcome::Bypassed, 999);
    answered(Outcome::Bypassed, 600);
    let text = metrics.encode(3);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="executed",status="201"} 1"#);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="executed",status="200"} 1"#);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="in_flight",status="409"} 1"#);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="bypassed",status="other"} 2"#);
    has(&text, "oncegate_executions 3");
    assert!(!text.contains("replayed"), "series that were never needed do not exist:\n{text}");
}

#[test]
fn refusals_for_the_store_are_counted_from_the_beginning() {
    let line = r#"oncegate_requests_total{route="defaults",outcome="unavailable",status="503"}"#;
    let metrics = metrics();
    has(&metrics.encode(0), &format!("{line} 0"));
    metrics.observe(&Event::Answered { route: "defaults", outcome: Outcome::Unavailable, status: 503 });
    has(&metrics.encode(0), &format!("{line} 1"));
}

#[test]
fn a_request_without_an_answer_is_counted_as_what_its_client_was_told() {
    let metrics = metrics();
    let errors = [None, Some(UpstreamError::timeout())];
    for error in &errors {
        metrics.observe(&Event::Failed { route: "defaults", error: error.as_ref() });
    }
    let text = metrics.encode(0);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="bypassed",status="502"} 1"#);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="bypassed",status="504"} 1"#);
}

#[test]
fn outcomes_index_their_counters() {
    assert!(Outcome::ALL.iter().enumerate().all(|(index, outcome)| *outcome as usize == index));
}

#[test]
fn every_event_is_counted() {
    let fence = Fence::new(1);
    let (route, duration) = ("defaults", Duration::from_millis(2));
    for (event, line) in [
        (Event::Claimed { duration }, "oncegate_claim_duration_seconds_bucket{le=\"0.0025\"} 1"),
        (Event::Completed { duration }, "oncegate_completion_duration_seconds_sum 0.002"),
        (Event::Executed { route, duration }, "oncegate_upstream_duration_seconds_count{route=\"defaults\"} 1"),
        (Event::TakenOver { attempt: 2 }, "oncegate_takeovers_total 1"),
        (Event::Coalesced, "oncegate_coalesced_requests_total 1"),
        (Event::Stale { verb: "complete", fence }, "oncegate_stale_writes_total{verb=\"complete\"} 1"),
        (
            Event::StoreFailed { verb: "claim", kind: ErrorKind::Full },
            "oncegate_store_errors_total{verb=\"claim\",kind=\"full\"} 1",
        ),
        (Event::Doubted, "oncegate_doubts_total 1"),
        (Event::Marked, "oncegate_marked_responses_total 1"),
        (Event::Anonymous, "oncegate_anonymous_requests_total 1"),
        (Event::SplitScope, "oncegate_split_scopes_total 1"),
        (Event::Uncooperative, "oncegate_uncooperative_responses_total 1"),
        (Event::FailedOpen, "oncegate_failed_open_requests_total 1"),
        (Event::ClientLeft, "oncegate_clients_left_total 1"),
    ] {
        let metrics = metrics();
        metrics.observe(&event);
        has(&metrics.encode(0), line);
    }
}

#[test]
fn a_census_sets_the_gauges() {
    let metrics = metrics();
    metrics.counted(&Census { in_flight: 1, abandoned: 2, completed: 3, unknown: 4 });
    metrics.reaped(Reaped { expired: 5, doubted: 6 });
    let text = metrics.encode(0);
    for line in [
        "oncegate_in_flight_records 1",
        "oncegate_abandoned_records 2",
        "oncegate_completed_records 3",
        "oncegate_unknown_records 4",
        "oncegate_reaped_records_total{what=\"expired\"} 5",
        "oncegate_reaped_records_total{what=\"abandoned\"} 6",
    ] {
        has(&text, line);
    }
    metrics.store_tried(true);
    has(&metrics.encode(0), "oncegate_store_up 1");
    metrics.store_tried(false);
    let text = metrics.encode(0);
    has(&text, "oncegate_store_up 0");
    has(&text, "oncegate_unknown_records 4");
}

#[test]
fn the_store_says_how_it_works() {
    use oncegate_store::observer::{Event, Observer};
    let metrics = metrics();
    let lag = Duration::from_millis(1500);
    for event in [
        Event::Batch { verbs: 3 },
        Event::Batch { verbs: 300 },
        Event::Size { bytes: 8192 },
        Event::Breaker { is_open: false },
        Event::Breaker { is_open: true },
        Event::Breaker { is_open: true },
        Event::Outbox { entries: 7, lag },
        Event::Poison,
        Event::TooLate,
        Event::TooLate,
    ] {
        Observer::observe(&metrics, &event);
    }
    let text = metrics.encode(0);
    for line in [
        "oncegate_store_batch_verbs_bucket{le=\"4.0\"} 1",
        "oncegate_store_batch_verbs_sum 303.0",
        "oncegate_store_size_bytes 8192",
        "oncegate_breaker_open 1",
        "oncegate_breaker_openings_total 1",
        "oncegate_outbox_entries 7",
        "oncegate_outbox_poison_total 1",
        "oncegate_outbox_late_total 2",
        "oncegate_outbox_lag_seconds 1.5",
    ] {
        has(&text, line);
    }
    Observer::observe(&metrics, &Event::Breaker { is_open: false });
    has(&metrics.encode(0), "oncegate_breaker_open 0");
}

#[test]
fn routes_of_another_configuration_are_counted_beside_the_earlier_ones() {
    let metrics = metrics();
    let answered = |route| metrics.observe(&Event::Answered { route, outcome: Outcome::Executed, status: 201 });
    answered("defaults");
    metrics.add_routes(&Routes::all(Route::gateway("other", Backend::Plain)));
    answered("other");
    // It began before the routes changed.
    answered("defaults");
    let text = metrics.encode(0);
    has(&text, r#"oncegate_requests_total{route="defaults",outcome="executed",status="201"} 2"#);
    has(&text, r#"oncegate_requests_total{route="other",outcome="executed",status="201"} 1"#);
}

#[test]
fn suspicions_are_counted_by_route_from_zero_on_and_anonymous_ones_apart() {
    use oncegate_core::{Operation, RecordDigest, Suspicion, Timestamp};
    let metrics = metrics();
    let line =
        |scope, count| format!("oncegate_suspected_duplicates_total{{route=\"defaults\",scope=\"{scope}\"}} {count}");
    has(&metrics.encode(0), &line("known", 0));
    let [earlier, record] = [[1; 16], [2; 16]].map(RecordDigest::from_bytes);
    let (operation, at) = (Operation::new("POST", "/payments"), Timestamp::from_micros(0));
    let mut suspicion = Suspicion { record, earlier, operation, is_anonymous: false, created_at: at, earlier_at: at };
    metrics.suspected("defaults", &suspicion);
    suspicion.is_anonymous = true;
    (0..2).for_each(|_| metrics.suspected("defaults", &suspicion));
    let text = metrics.encode(0);
    has(&text, &line("known", 1));
    has(&text, &line("anonymous", 2));
}

#[test]
fn the_last_reload_is_told_apart() {
    let metrics = metrics();
    has(&metrics.encode(0), "oncegate_config_last_reload_failed 0");
    metrics.config_reloaded(false);
    has(&metrics.encode(0), "oncegate_config_last_reload_failed 1");
    metrics.config_reloaded(true);
    let text = metrics.encode(0);
    for line in [
        "oncegate_config_last_reload_failed 0",
        "oncegate_config_reloads_total{result=\"done\"} 1",
        "oncegate_config_reloads_total{result=\"refused\"} 1",
    ] {
        has(&text, line);
    }
}

#[test]
fn the_documentation_has_every_metric() {
    let metrics = metrics();
    // Families without series are not encoded.
    let (route, duration, fence) = ("defaults", Duration::ZERO, Fence::new(1));
    metrics.observe(&Event::Answered { route, outcome: Outcome::Executed, status: 200 });
    metrics.observe(&Event::Executed { route, duration });
    metrics.observe(&Event::Stale { verb: "extend", fence });
    metrics.observe(&Event::StoreFailed { verb: "extend", kind: ErrorKind::Unavailable });
    metrics.reaped(Reaped { expired: 1, doubted: 1 });
    metrics.config_reloaded(true);
    let text = metrics.encode(0);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let full = |(name, kind): (&str, &str)| match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let registered: BTreeSet<_> = types.map(full).collect();
    let documentation = include_str!("../../../../docs/operating.md");
    let rows = documentation.lines().filter_map(|line| line.strip_prefix("| `oncegate_")?.split(['`', '{']).next());
    let documented: BTreeSet<_> = rows.map(|name| format!("oncegate_{name}")).collect();
    assert_eq!(documented, registered);
}
