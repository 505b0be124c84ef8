//! The headers that only the layer may send.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::Full;
use oncegate_tower::{CurrentLease, Outcome, Route};

use crate::harness::{Call, Fault, Gate, created, post, route};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn with_secret() -> Route {
    let mut route = route();
    let mut secret = HeaderValue::from_static(SECRET);
    secret.set_sensitive(true);
    route.upstream_secret = Some(secret);
    route
}

/// Has every header that only we may send, as a service may spell it that makes variables of them.
fn imitating(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    for word in ["record", "fence", "attempt", "secret"] {
        for between in ["-", "_", ".", "~"] {
            let name: HeaderName = format!("oncegate{between}{word}").parse().unwrap();
            request.headers_mut().append(name.clone(), HeaderValue::from_static("7"));
            request.headers_mut().append(name, HeaderValue::from_static(SECRET));
        }
    }
    request
}

fn without_key(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    request.headers_mut().remove("idempotency-key");
    request
}

/// The names of our headers, each as often as it is there.
fn ours(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| name.starts_with("oncegate"));
    names.sort_unstable();
    names
}

async fn called(gate: &mut Gate, request: Request<Full<Bytes>>) -> HeaderMap {
    let answer = gate.send(request);
    let call: Call = gate.next_call().await;
    let headers = call.headers.clone();
    call.answer(created("paid"));
    answer.await.unwrap().unwrap();
    headers
}

#[tokio::test]
async fn handlers_learn_their_lease_and_clients_cannot_imitate_it() {
    let mut gate = Gate::new(route());
    let first = gate.send(imitating(post("k", "{}")));
    let call = gate.next_call().await;
    let record = gate.store.record().await;
    let header = |name| call.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("oncegate-record"), record.id.digest().to_string());
    assert_eq!((header("oncegate-fence"), header("oncegate-attempt")), (record.fence.to_string(), "1".to_owned()));
    assert_eq!(ours(&call.headers), ["oncegate-attempt", "oncegate-fence", "oncegate-record"]);
    let lease = call.extensions.get::<CurrentLease>().unwrap();
    assert_eq!((lease.key.as_str(), lease.lease.fence), ("k", record.fence));
    call.answer(created("paid"));
    first.await.unwrap().unwrap();

    let unguarded = called(&mut gate, without_key(imitating(post("k", "{}")))).await;
    assert!(ours(&unguarded).is_empty(), "{unguarded:?}");
}

#[tokio::test]
async fn the_secret_goes_along_with_what_was_claimed() {
    let mut gate = Gate::new(with_secret());
    let headers = called(&mut gate, imitating(post("k", "{}"))).await;
    assert_eq!(headers["oncegate-secret"], SECRET);
    assert_eq!(ours(&headers), ["oncegate-attempt", "oncegate-fence", "oncegate-record", "oncegate-secret"]);
    let unguarded = called(&mut gate, without_key(imitating(post("k", "{}")))).await;
    assert!(ours(&unguarded).is_empty(), "{unguarded:?}");
    let shown = format!("{:?} {headers:?}", with_secret());
    assert!(!shown.contains(SECRET), "no log has it: {shown}");
}

#[tokio::test(start_paused = true)]
async fn the_secret_does_not_go_along_with_what_could_not_be_claimed() {
    let mut route = with_secret();
    route.fail_open = true;
    let mut gate = Gate::new(route);
    gate.store.fault("claim", Some(Fault::Before));
    let answer = gate.send(imitating(post("k", "{}")));
    let call = gate.next_call().await;
    assert!(ours(&call.headers).is_empty(), "{:?}", call.headers);
    call.answer(created("paid"));
    assert_eq!(Outcome::of(&answer.await.unwrap().unwrap()), Outcome::Bypassed);
}
