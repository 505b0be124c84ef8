//! C42 to C46: what is a key, and what is none.

use crate::harness::{Gate, post, reply, wire};

#[tokio::test]
async fn c42_the_quoted_and_the_bare_form_are_one_key() {
    let mut gate = Gate::start("").await;
    let (quoted, bare) = (r#""8e03978e-40d5-43e8""#, "8e03978e-40d5-43e8");
    let first = gate.send(post("/x", "{}").key(quoted));
    let call = gate.service.call().await;
    assert_eq!(call.header("idempotency-key"), Some(quoted), "the upstream gets it as it was sent");
    call.answer(reply(201, "created"));
    first.await.unwrap().is_executed(201, "created");
    gate.repeat(post("/x", "{}").key(bare)).await.is_replay_of(201, "created");

    let escaped = post("/x", r#"{"b":2}"#).key(r#""a\"b""#);
    let sent = gate.send(escaped.clone());
    let call = gate.service.call().await;
    assert_eq!(call.header("idempotency-key"), Some(r#""a\"b""#));
    call.answer(reply(201, "escaped"));
    sent.await.unwrap().is_executed(201, "escaped");
    gate.repeat(escaped).await.is_replay_of(201, "escaped");
    let records = gate.records().await;
    assert!(records.iter().any(|record| record.id.key().as_str() == r#"a"b"#), "{records:?}");

    for malformed in [r#""unterminated"#, r#""x";p=1"#, r#""""#, r#"a"b"#] {
        gate.repeat(post("/x", "{}").key(malformed)).await.problem(400, "key-invalid");
    }
}

#[tokio::test]
async fn c43_a_key_of_255_bytes_works_and_a_longer_one_is_400() {
    let mut gate = Gate::start("").await;
    let random = |length: usize| (0..length).map(|at| char::from(b'a' + (at * at % 26) as u8)).collect::<String>();
    let longest = post("/x", "{}").key(&random(255));
    gate.exchange(longest.clone(), reply(201, "created")).await.is_executed(201, "created");
    gate.repeat(longest).await.is_replay_of(201, "created");
    for key in [random(256), random(3000), "a".repeat(3000)] {
        let problem = gate.repeat(post("/x", "{}").key(&key)).await.problem(400, "key-invalid");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("idempotency-key") && detail.contains("1 to 255"), "{detail}");
    }
    // Beyond what a head may have; the server answers for itself.
    let head =
        format!("POST /x HTTP/1.1\r\nHost: test\r\nConnection: close\r\nIdempotency-Key: {}", "a".repeat(70_000));
    let answer = wire(&gate.server.address, format!("{head}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await;
    assert!(matches!(answer.status, 400 | 431), "{answer:?}");
    assert_eq!(gate.executions(), 1);
}

#[tokio::test]
async fn c44_long_keys_that_differ_in_their_last_byte_are_two() {
    let mut gate = Gate::start("").await;
    for last in ["1", "2"] {
        let request = post("/x", "{}").key(&format!("{}{last}", "a".repeat(200)));
        gate.exchange(request.clone(), reply(201, last)).await.is_executed(201, last);
        gate.repeat(request).await.is_replay_of(201, last);
    }
    assert_eq!(gate.executions(), 2);
}

#[tokio::test]
async fn c45_a_key_is_visible_ascii_and_separators_in_it_are_ordinary() {
    let mut gate = Gate::start_with("", &[("ONCEGATE_LOG", "trace")]).await;
    for key in ["日本".as_bytes(), b"caf\xe9", b"a\tb", b"a b", b"\xff"] {
        gate.repeat(post("/x", "{}").with("idempotency-key", key)).await.problem(400, "key-invalid");
    }
    let head = b"POST /x HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\nIdempotency-Key: a";
    for control in [0, 0x01, 0x1b, 0x7f] {
        let answer = wire(&gate.server.address, &[&head[..], &[control], b"b\r\n\r\n"].concat()).await;
        assert_eq!(answer.status, 400, "0x{control:02x}: {answer:?}");
    }
    assert_eq!(gate.executions(), 0);
    let log = gate.server.log();
    assert!(!log.contains("日本") && !log.contains(['\0', '\u{1}']), "{log}");

    let ordinary = ["../../x", "a:b:c", "%00", "A", "A|K1"];
    for key in ordinary {
        gate.exchange(post("/x", "{}").key(key), reply(201, key)).await.is_executed(201, key);
    }
    // No key of A is a key of somebody else whose name, put before it, would read alike.
    let other = post("/x", "{}").with("authorization", "Bearer A:a").key("b:c");
    gate.exchange(other, reply(201, "other")).await.is_executed(201, "other");
    for key in ordinary {
        gate.repeat(post("/x", "{}").key(key)).await.is_replay_of(201, key);
    }
}

#[tokio::test]
async fn c46_more_than_one_key_is_400_and_the_clean_retry_executes() {
    let mut gate = Gate::start("").await;
    let payment = post("/payments", "{}");
    for repeated in [
        payment.clone().also("idempotency-key", "K1"),
        payment.clone().also("idempotency-key", "K2"),
        payment.clone().key("K1, K1"),
        payment.clone().key("K1,K2"),
        payment.clone().key(r#""K1", "K1""#),
    ] {
        gate.repeat(repeated.clone()).await.problem(400, "key-repeated");
        gate.send_by_http2(&repeated).await.problem(400, "key-repeated");
    }
    assert_eq!(gate.executions(), 0);
    gate.exchange(payment, reply(201, "paid")).await.is_executed(201, "paid");
    assert_eq!(gate.executions(), 1);
}
