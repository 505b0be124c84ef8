//! What our own answers say, each by its type.

use std::time::Duration;

use http_body_util::BodyExt;
use oncegate_core::{DoubtReason, Doubted, FirstUse, IdempotencyKey, Operation, StateName, Timestamp};
use oncegate_tower::{Problem, UpstreamErrorKind, problem::ProblemKind};
use serde_json::Value;

use crate::harness::Body;

/// Every problem that is made somewhere, with its row of the table: name, status, what the client may do.
fn table() -> Vec<(Problem, &'static str, u16, &'static str)> {
    let invalid = IdempotencyKey::new("").unwrap_err();
    let first = FirstUse { operation: Operation::new("POST", "/payments"), state: StateName::Completed };
    let doubted = Doubted { reason: DoubtReason::TIMEOUT, since: Timestamp::from_micros(0) };
    let (failed, timeout) = (UpstreamErrorKind::Failed, UpstreamErrorKind::Timeout);
    vec![
        (Problem::key_missing("the header idempotency-key"), "key-missing", 400, "new-key"),
        (Problem::key_invalid("idempotency-key", invalid), "key-invalid", 400, "new-key"),
        (Problem::key_repeated("idempotency-key"), "key-repeated", 400, "new-key"),
        (Problem::scope_missing("Authorization"), "scope-missing", 400, "new-key"),
        (Problem::scope_too_long(), "scope-missing", 400, "new-key"),
        (Problem::request_too_large(10), "request-too-large", 413, "new-key"),
        (Problem::request_cut_short(), "request-cut-short", 400, "same-key"),
        (Problem::mismatch(&first), "mismatch", 422, "new-key"),
        (Problem::in_flight(Duration::from_secs(9)), "in-flight", 409, "same-key"),
        (Problem::unknown(&doubted), "unknown", 409, "operator"),
        (Problem::rules_changed(), "rules-changed", 409, "operator"),
        (Problem::response_not_kept(201), "response-not-kept", 410, "new-key"),
        (Problem::upstream(UpstreamErrorKind::Unreachable, false), "upstream-unreachable", 502, "same-key"),
        (Problem::upstream(failed, false), "upstream-failed", 502, "same-key"),
        (Problem::upstream(failed, true), "upstream-failed", 502, "operator"),
        (Problem::upstream(timeout, false), "upstream-timeout", 504, "same-key"),
        (Problem::upstream(timeout, true), "upstream-timeout", 504, "operator"),
        (Problem::store_unavailable(), "store-unavailable", 503, "same-key"),
        (Problem::overloaded(), "overloaded", 503, "same-key"),
    ]
}

#[tokio::test]
async fn each_type_has_its_status_and_says_how_to_go_on() {
    for (problem, name, status, retry) in table() {
        let (parts, body) = problem.into_response::<Body>().into_parts();
        let document: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(document["type"], format!("/.well-known/idempotency/problems/{name}"));
        assert_eq!((parts.status.as_u16(), &document["status"]), (status, &status.into()), "{name}");
        assert_eq!(document["retry"], retry, "{name}");
        assert_eq!(parts.headers["content-type"], "application/problem+json");
        assert_eq!(parts.headers["cache-control"], "no-store", "{name} is said to one request only");
        let is_temporary = ["in-flight", "store-unavailable", "overloaded"].contains(&name);
        assert_eq!(parts.headers.contains_key("retry-after"), is_temporary, "{name}");
    }
}

#[test]
fn every_type_but_that_of_a_later_feature_is_in_the_table() {
    let made: Vec<_> = table().iter().map(|(problem, ..)| problem.kind()).collect();
    let missing: Vec<_> = ProblemKind::ALL.into_iter().filter(|kind| !made.contains(kind)).collect();
    assert_eq!(missing, [ProblemKind::CredentialInvalid]);
}
