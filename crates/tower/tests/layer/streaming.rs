//! Long and slow responses.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;
use oncegate_tower::{UpstreamError, UpstreamErrorKind};

use crate::harness::{Gate, created, part, post, route, streamed};

#[tokio::test(start_paused = true)]
async fn parts_are_forwarded_as_they_come_and_the_end_waits_for_the_record() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let (parts, response) = streamed();
    gate.next_call().await.answer(response);
    parts.send(part("one ")).unwrap();
    let mut body = first.await.unwrap().unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one ");
    parts.send(part("two")).unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "two");
    gate.repeat(post("k", "{}")).await.problem(409, "in-flight");

    gate.store.hold(Some("complete"));
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    parts.send(Ok(Frame::trailers(trailers))).unwrap();
    drop(parts);
    let mut end = tokio::spawn(async move { body.frame().await.unwrap().unwrap().into_trailers().unwrap() });
    let early = tokio::time::timeout(Duration::from_millis(500), &mut end).await;
    assert!(early.is_err(), "the end came before the record was stored");
    gate.store.hold(None);
    assert_eq!(end.await.unwrap().get("x-sum").unwrap(), "7");
    let replay = gate.repeat(post("k", "{}")).await;
    assert!(replay.is_replay() && &replay.body[..] == b"one two");
}

#[tokio::test(start_paused = true)]
async fn the_last_byte_of_a_known_length_waits_for_the_record() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let long: &'static str = Box::leak("x".repeat(200_000).into_boxed_str());
    gate.store.hold(Some("complete"));
    gate.next_call().await.answer(created(long));
    let mut body = first.await.unwrap().unwrap().into_body();
    let early = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(early.len(), long.len() - 1);
    let rest = tokio::time::timeout(Duration::from_millis(500), body.frame()).await;
    assert!(rest.is_err(), "the last byte came before the record was stored");
    gate.store.hold(None);
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "x");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_short_answer_waits_whole_for_the_record() {
    let mut gate = Gate::new(route());
    gate.store.hold(Some("complete"));
    let mut first = gate.send(post("k", "{}"));
    gate.next_call().await.answer(created("paid"));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut first).await;
    assert!(early.is_err(), "the answer came before the record was stored");
    gate.store.hold(None);
    assert_eq!(first.await.unwrap().unwrap().status(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_never_a_stored_answer() {
    for begins_late in [false, true] {
        let mut gate = Gate::new(route());
        let first = gate.send(post("k", "{}"));
        let (parts, response) = streamed();
        gate.next_call().await.answer(response);
        parts.send(part("half")).unwrap();
        if begins_late {
            let mut body = first.await.unwrap().unwrap().into_body();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
            parts.send(Err(UpstreamError::new(UpstreamErrorKind::Failed, "reset").into())).unwrap();
            assert!(body.frame().await.unwrap().is_err(), "the client must see that it is cut");
        } else {
            parts.send(Err("reset".into())).unwrap();
            let whole = crate::harness::Whole::of(first.await.unwrap()).await;
            assert_eq!(whole.problem(502, "upstream-failed")["retry"], "operator");
        }
        let problem = gate.repeat(post("k", "{}")).await.problem(409, "unknown");
        assert_eq!(problem["reason"], "body cut short");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_in_the_middle_does_not_cut_the_record() {
    let mut gate = Gate::new(route());
    let first = gate.send(post("k", "{}"));
    let (parts, response) = streamed();
    gate.next_call().await.answer(response);
    parts.send(part("one ")).unwrap();
    let mut body = first.await.unwrap().unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    for _ in 0..50 {
        parts.send(part("x")).unwrap();
    }
    drop(parts);
    gate.handle.drained().await;
    let replay = gate.repeat(post("k", "{}")).await;
    assert_eq!(replay.body, Bytes::from(format!("one {}", "x".repeat(50))));
    assert_eq!(gate.events.count("ClientLeft"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_beyond_the_limit_reaches_its_client_and_leaves_a_marker() {
    let mut route = route();
    route.max_stored_body = 10;
    let mut gate = Gate::new(route);
    let first = gate.send(post("k", "{}"));
    let (parts, response) = streamed();
    gate.next_call().await.answer(response);
    for _ in 0..3 {
        parts.send(part("12345")).unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    drop(parts);
    let whole = crate::harness::Whole::of(first.await.unwrap()).await;
    assert_eq!(whole.body, "123451234512345");
    gate.repeat(post("k", "{}")).await.problem(410, "response-not-kept");
}

#[tokio::test(start_paused = true)]
async fn a_zombie_cuts_its_stream_instead_of_ending_it() {
    let mut zombie = Gate::new(crate::harness::idempotent());
    let first = zombie.send(post("k", "{}"));
    let (parts, response) = streamed();
    zombie.next_call().await.answer(response);
    parts.send(part("the zombie's ")).unwrap();
    let mut body = first.await.unwrap().unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    zombie.store.hold(Some("extend"));
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut taker = Gate::before(zombie.store.clone(), crate::harness::idempotent());
    taker.exchange(post("k", "{}"), created("the taker's")).await;
    drop(parts);
    assert!(body.frame().await.unwrap().is_err(), "a clean end would make a whole answer of it");
}
