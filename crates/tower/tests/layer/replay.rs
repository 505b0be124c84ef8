//! What a replay looks like.

use http::Response;
use oncegate_core::Store;
use oncegate_tower::Outcome;

use crate::harness::{Body, Gate, created, post, route, status};

fn with_headers(mut response: Response<Body>, headers: &[(&'static str, &str)]) -> Response<Body> {
    for (name, value) in headers {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}

#[tokio::test]
async fn a_replay_carries_what_describes_the_result_and_nothing_of_the_exchange() {
    let kept = [
        ("content-type", "text/csv; charset=windows-1251"),
        ("content-language", "ru"),
        ("content-location", "/orders/7.csv"),
        ("content-disposition", "attachment"),
        ("location", "/orders/7"),
        ("etag", "\"v1\""),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("link", "<a>; rel=next"),
        ("link", "<b>; rel=prev"),
        ("cache-control", "no-store"),
        ("vary", "Accept-Encoding"),
        ("x-order", "7"),
    ];
    let dropped = [
        ("set-cookie", "sid=1"),
        ("www-authenticate", "Basic"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("keep-alive", "timeout=5"),
        ("access-control-allow-origin", "*"),
        ("ratelimit", "1"),
        ("x-ratelimit-remaining", "1"),
        ("x-request-id", "r1"),
        ("traceparent", "00-1-1-00"),
        ("server-timing", "db;dur=1"),
    ];
    let mut route = route();
    route.replay_headers = vec!["x-order".parse().unwrap(), "set-cookie".parse().unwrap()];
    let mut gate = Gate::new(route);
    let original = with_headers(with_headers(created("a;b"), &kept), &dropped);
    let first = gate.exchange(post("k", "{}"), original).await;
    let replay = gate.repeat(post("k", "{}")).await;
    for name in kept.map(|(name, _)| name) {
        let values = |headers: &http::HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(values(&replay.headers), values(&first.headers), "{name}");
    }
    for (name, value) in dropped {
        assert_eq!((first.header(name), replay.header(name)), (Some(value), None), "{name}");
    }
    assert_eq!((replay.status, &replay.body), (first.status, &first.body));
}

#[tokio::test]
async fn values_of_headers_are_replayed_byte_by_byte() {
    let odd: [(&str, &[u8]); 3] = [
        ("content-disposition", b"attachment; filename=\"caf\xe9 \xc3\xa9.pdf\""),
        ("link", b"<a>; rel=next, <b>;title=\"x, y\""),
        ("etag", b""),
    ];
    let mut original = created("paid");
    for (name, value) in odd {
        original.headers_mut().append(name, http::HeaderValue::from_bytes(value).unwrap());
    }
    let mut gate = Gate::new(route());
    gate.exchange(post("k", "{}"), original).await;
    let replay = gate.repeat(post("k", "{}")).await;
    for (name, value) in odd {
        let values: Vec<_> = replay.headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect();
        assert_eq!(values, [value], "{name}");
    }
}

#[tokio::test]
async fn a_route_that_keeps_no_bodies_keeps_no_headers_either() {
    let mut route = route();
    route.store_body = false;
    let mut gate = Gate::new(route);
    let original = with_headers(created("t_secret"), &[("location", "/tokens/t_secret"), ("etag", "\"t_secret\"")]);
    let first = gate.exchange(post("k", "{}"), original).await;
    assert_eq!(first.header("location"), Some("/tokens/t_secret"));
    let record = gate.store.record().await;
    let (_, stored) = gate.store.records.get(record.id.digest()).await.unwrap().unwrap();
    let stored = stored.unwrap();
    assert_eq!((stored.status, stored.headers.len(), stored.body), (201, 0, None));
}

#[tokio::test(start_paused = true)]
async fn first_answers_and_replays_say_when_the_key_ends() {
    let mut gate = Gate::new(route());
    let first = gate.exchange(post("k", "{}"), created("paid")).await;
    assert_eq!((first.header("idempotent-replayed"), first.header("idempotency-completed")), (None, None));
    assert_eq!(first.header("idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));
    for seconds in [1, 100] {
        tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
        let replay = gate.repeat(post("k", "{}")).await;
        assert_eq!(replay.header("idempotency-completed"), Some("Thu, 01 Jan 2026 00:00:00 GMT"));
        assert_eq!(replay.header("idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));
    }
}

#[tokio::test]
async fn an_upstream_that_says_replayed_itself_is_passed_but_not_believed() {
    let mut gate = Gate::new(route());
    let first = gate.exchange(post("k", "{}"), with_headers(created("paid"), &[("idempotent-replayed", "true")])).await;
    assert_eq!((first.outcome, first.header("idempotent-replayed")), (Outcome::Executed, Some("true")));
}

#[tokio::test]
async fn empty_and_binary_bodies_survive() {
    for (code, body) in [(204, ""), (202, ""), (200, "\0\u{1}\u{7f}")] {
        let mut gate = Gate::new(route());
        gate.exchange(post("k", "{}"), status(code, body)).await;
        let replay = gate.repeat(post("k", "{}")).await;
        assert!(replay.is_replay());
        assert_eq!((replay.status, &replay.body[..]), (code, body.as_bytes()));
        assert_eq!(replay.header("content-type"), None);
    }
}

#[tokio::test]
async fn a_response_that_is_not_kept_is_not_executed_again() {
    let mut short = route();
    short.max_stored_body = 3;
    let mut bodiless = route();
    bodiless.store_body = false;
    let usual = crate::harness::route;
    for (route, code) in [(short, 201), (bodiless, 201), (usual(), 206), (usual(), 101)] {
        let mut gate = Gate::new(route);
        let first = gate.exchange(post("k", "{}"), status(code, "paid")).await;
        assert_eq!((first.status, &first.body[..]), (code, &b"paid"[..]));
        let repeat = gate.repeat(post("k", "{}")).await;
        let problem = repeat.problem(410, "response-not-kept");
        assert_eq!(problem["first_status"], code);
        assert_eq!((repeat.outcome, gate.events.count("Marked")), (Outcome::Replayed, 1));
    }
}
