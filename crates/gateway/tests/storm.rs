//! `oncegate storm`, the real binary, against scripted APIs.

#![allow(clippy::unwrap_used, reason = "in a test and its helpers, a panic is the report")]

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

#[path = "storm/backend.rs"]
mod backend;

use backend::{Backend, json, reaches, replay, with};

/// What the command did.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// The report, printed with `--json`.
    fn report(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {}{}", self.stdout, self.stderr))
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(mut command: Command) -> Ended {
    let output = command.output().await.unwrap();
    Ended {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn storm(url: &str, arguments: &[&str]) -> Ended {
    let mut command = command(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["storm", "--url", url]).args(arguments);
    run(command).await
}

/// Storms with JSON output, after checking that the report is whole: every request is in one class.
async fn report(url: &str, arguments: &[&str]) -> (i32, Value) {
    let ended = storm(url, &[&["--json", "--timeout", "30s"], arguments].concat()).await;
    let report = ended.report();
    let totals = &report["totals"];
    let classes = ["status_2xx", "replayed", "status_409", "status_422", "other_4xx", "status_5xx", "other", "hung_up"];
    let classes = classes.into_iter().chain(["not_connected", "failed"]);
    let classified: u64 = classes.map(|class| totals[class].as_u64().unwrap()).sum();
    assert_eq!(totals["requests"], classified);
    (ended.code, report)
}

fn line(report: &Value) -> &str {
    report["verdict"]["line"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_executes_every_repeat_is_guilty() {
    let backend = Backend::start(|call| async move {
        let id = call.state.execute(&call.key);
        json(201, &format!(r#"{{"id":{id}}}"#))
    })
    .await;
    let counted = ["--count-url", &backend.url("/count"), "--keys", "3", "--concurrency", "6"];

    let (code, by_count) = report(&backend.url("/"), &counted).await;
    assert_eq!(code, 1);
    assert_eq!(line(&by_count), "guilty: 3 of 3 keys executed more than once (worst: 6 executions)");
    assert_eq!(by_count["verdict"]["judgement"], "guilty");
    assert_eq!(by_count["executions"], 18);
    assert_eq!(by_count["rows"][2]["executions"], 6);
    assert_eq!(by_count["latency_ms"]["executed"]["answers"], 18);

    let (code, by_answers) = report(&backend.url("/"), &["--keys", "3", "--concurrency", "6"]).await;
    assert_eq!(code, 1);
    assert!(line(&by_answers).starts_with("guilty: 3 of 3 keys executed more than once (worst: 6 executions) (by the"));
}

/// Between check and act, the first request waits for a second one: only repeats that are really under way at the same
/// time let this test end.
#[tokio::test(flavor = "multi_thread")]
async fn check_then_act_lets_two_racers_through_and_is_guilty() {
    let backend = Backend::start(|call| async move {
        if call.nth >= 2 {
            reaches(&call.seen.answered, 2).await;
            return replay(r#"{"paid":true}"#);
        }
        call.seen.racing.send_modify(|racing| *racing += 1);
        reaches(&call.seen.racing, 2).await;
        call.state.execute(&call.key);
        json(201, r#"{"paid":true}"#)
    })
    .await;
    let arguments = ["--count-url", &backend.url("/count/{key}"), "--keys", "4", "--parallel-keys", "2"];

    let (code, report) = report(&backend.url("/"), &arguments).await;

    assert_eq!(code, 1);
    assert_eq!(line(&report), "guilty: 4 of 4 keys executed more than once (worst: 2 executions)");
    assert_eq!(report["rows"][3]["executions"], 2);
    assert_eq!(report["totals"]["replayed"], 4 * 48);
}

/// The executor answers only when all others were told 409, so the whole burst must be under way at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_executes_once_is_innocent_and_its_connections_are_reused() {
    let backend = Backend::start(|call| async move {
        if call.nth > 0 {
            return json(409, "{}");
        }
        reaches(&call.seen.answered, 19).await;
        call.state.execute(&call.key);
        json(201, &format!(r#"{{"key":"{}"}}"#, call.key))
    })
    .await;

    let (code, report) = report(&backend.url("/"), &["--keys", "3", "--concurrency", "20"]).await;

    assert_eq!(code, 0);
    let innocent = "innocent: 3 keys x 20 repeats, each executed once";
    assert_eq!(line(&report), format!("{innocent} (by the answers alone; --count-url counts effects)"));
    assert_eq!(report["counted_by"], "answers");
    assert_eq!(report["totals"]["status_409"], 57);
    assert_eq!(report["totals"]["raced"], 60);
    assert_eq!(report["latency_ms"]["409"]["answers"], 57);
    // One connection finds out whether anybody listens, 20 carry all three bursts.
    assert_eq!(backend.state.connections(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn losers_that_get_500_are_shown_in_the_verdict() {
    let backend = Backend::start(|call| async move {
        if call.nth > 0 {
            return json(500, "{}");
        }
        call.state.execute(&call.key);
        json(201, "{}")
    })
    .await;
    let arguments = ["--count-url", &backend.url("/count"), "--keys", "2", "--concurrency", "8"];

    let (code, report) = report(&backend.url("/"), &arguments).await;

    assert_eq!(code, 0);
    assert_eq!(line(&report), "innocent: 2 keys x 8 repeats, each executed once, and 14 answers were 5xx");
    assert_eq!(report["totals"]["statuses"]["500"], 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_with_another_body_is_a_fault() {
    let backend = Backend::start(|call| async move {
        if call.nth > 0 {
            return replay(&format!(r#"{{"id":7,"nth":{}}}"#, call.nth / 2));
        }
        call.state.execute(&call.key);
        json(201, r#"{"id":7,"nth":0}"#)
    })
    .await;

    let (code, report) = report(&backend.url("/"), &["--keys", "2", "--concurrency", "5"]).await;

    assert_eq!(code, 1);
    assert!(line(&report).starts_with("guilty: 2 of 2 keys were replayed with another answer"));
    assert_eq!(report["rows"][0]["executions"], 1);
    assert_eq!(report["rows"][0]["conflicting_replays"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_never_executed_are_a_fault_of_their_own() {
    let backend = Backend::start(|_| async { json(200, r#"{"accepted":true}"#) }).await;
    let arguments = ["--count-url", &backend.url("/count"), "--keys", "2", "--concurrency", "3"];

    let (code, report) = report(&backend.url("/"), &arguments).await;

    assert_eq!(code, 1);
    assert_eq!(line(&report), "guilty: 2 of 2 keys were never executed, and 6 of 6 answers were 200");
    assert_eq!(report["verdict"]["never_executed"], 2);
}

/// Nobody is answered before half of the burst has hung up; their retries are then replayed.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_the_repeats_hang_up_and_come_back() {
    let backend = Backend::start(|call| async move {
        if call.nth == 0 {
            call.state.execute(&call.key);
        }
        reaches(&call.seen.left, 5).await;
        replay(r#"{"id":1}"#)
    })
    .await;
    let counted = ["--count-url", &backend.url("/count"), "--keys", "2", "--concurrency", "10", "--settle", "10ms"];

    let aborting = [&counted[..], &["--abort-after", "20", "--retry"]].concat();
    let (code, report) = report(&backend.url("/"), &aborting).await;

    assert_eq!(code, 0);
    assert_eq!(line(&report), "innocent: 2 keys x 10 repeats, each executed once");
    assert_eq!(report["totals"]["hung_up"], 10);
    assert_eq!(report["totals"]["retries"], 10);
    assert_eq!(report["totals"]["replayed"], 20);
    assert_eq!(report["totals"]["undecided"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_nobody_saw_is_not_judged() {
    let backend = Backend::start(|call| async move {
        call.state.execute(&call.key);
        std::future::pending().await
    })
    .await;

    let (code, report) =
        report(&backend.url("/"), &["--keys", "1", "--concurrency", "1", "--abort-after", "20ms"]).await;

    assert_eq!(code, 2);
    assert_eq!(line(&report), "no verdict: 1 of 1 keys could not be judged");
    assert_eq!(report["rows"][0]["executions"], Value::Null);
}

/// What a repeat that hung up executes after the burst still counts: the count is read until it stands still.
/// Here that happens when the count was read twice, before the burst and after it.
#[tokio::test(flavor = "multi_thread")]
async fn late_executions_of_repeats_that_hung_up_are_counted() {
    let backend = Backend::start(|call| async move {
        if call.nth == 0 {
            let (state, key, left) = (call.state.clone(), call.key.clone(), call.seen.left.clone());
            tokio::spawn(async move {
                reaches(&left, 1).await;
                reaches(&state.counted, 2).await;
                state.execute(&key);
            });
        }
        reaches(&call.seen.left, 1).await;
        call.state.execute(&call.key);
        json(201, "{}")
    })
    .await;
    let arguments = ["--count-url", &backend.url("/count"), "--keys", "1", "--concurrency", "2", "--abort-after", "20"];

    let (code, report) = report(&backend.url("/"), &arguments).await;

    assert_eq!(code, 1, "{report}");
    assert_eq!(report["rows"][0]["executions"], 2);
}

/// What is executed between two keys is not lost: it shows at the later one.
#[tokio::test(flavor = "multi_thread")]
async fn executions_between_two_keys_are_counted() {
    let backend = Backend::start(|call| async move {
        let (state, key) = (call.state.clone(), call.key.clone());
        if state.execute(&key) == 1 {
            tokio::spawn(async move {
                reaches(&state.counted, 2).await;
                state.execute(&key);
            });
        }
        json(201, "{}")
    })
    .await;
    let arguments = ["--count-url", &backend.url("/count"), "--keys", "2", "--concurrency", "1"];

    let (code, report) = report(&backend.url("/"), &arguments).await;

    assert_eq!(code, 1);
    assert_eq!(report["executions"], 3);
}

/// The first burst is one executor and those that are told to come back; the second one is replayed.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_that_are_told_to_come_back_are_retried_until_they_are_decided() {
    let backend = Backend::start(|call| async move {
        match call.nth {
            0 => {
                reaches(&call.seen.answered, 4).await;
                call.state.execute(&call.key);
                json(201, r#"{"id":1}"#)
            }
            1 => with(json(409, "{}"), "retry-after", "0"),
            2 => with(json(425, "{}"), "retry-after", "0"),
            3 => json(429, "{}"),
            4 => json(503, "{}"),
            _ => replay(r#"{"id":1}"#),
        }
    })
    .await;

    let (code, report) = report(&backend.url("/"), &["--keys", "2", "--concurrency", "5", "--retry"]).await;

    assert_eq!(code, 0);
    let totals = &report["totals"];
    assert_eq!((&totals["retries"], &totals["replayed"], &totals["undecided"]), (&8.into(), &8.into(), &0.into()));
    assert_eq!(totals["status_409"], 2);
    assert_eq!(totals["other_4xx"], 4);
    assert_eq!(totals["status_5xx"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_are_filled_per_key_and_repeats_are_equal() {
    let backend = Backend::start(|_| async { json(201, "{}") }).await;
    let arguments = [
        &["--keys", "2", "--concurrency", "3", "--method", "patch", "--key-header", "Idempotency-Key"][..],
        &["--body", r#"{"reference":"{key}","amount":{n}}"#, "--header", "X-Reference: {n}/{key}"],
    ];

    storm(&backend.url("/orders/{n}?key={key}"), &arguments.concat()).await;

    let requests = backend.state.requests();
    assert_eq!(requests.len(), 6);
    for (index, seen) in requests.iter().enumerate() {
        let (key, number) = (&seen.key, index / 3 + 1);
        assert_eq!(seen.path, format!("/orders/{number}?key={key}"));
        assert_eq!(seen.body, format!(r#"{{"reference":"{key}","amount":{number}}}"#));
        assert_eq!(seen.headers["x-reference"], format!("{number}/{key}"));
        assert_eq!(seen.headers["content-type"], "application/json");
        assert_eq!(seen.headers["host"], backend.address.to_string());
    }
    assert_ne!(requests[0].key, requests[3].key);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_a_table_and_the_verdict_in_the_last_line() {
    let backend = Backend::start(|call| async move {
        call.state.execute(&call.key);
        json(201, "{}")
    })
    .await;

    let ended = storm(&backend.url("/"), &["--keys", "25", "--concurrency", "2"]).await;

    assert_eq!(ended.code, 0);
    assert_eq!(ended.stderr, "");
    for expected in ["executions", "latency, ms", "p99", "5 more keys", "50 requests in"] {
        assert!(ended.stdout.contains(expected), "{expected} is missing in {}", ended.stdout);
    }
    assert!(ended.stdout.lines().last().unwrap().starts_with("innocent: 25 keys x 2 repeats"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_ends_the_storm_without_a_verdict() {
    let backend = Backend::start(|call| async move {
        call.state.execute(&call.key);
        if call.nth == 1 {
            call.state.close.notify_one();
            reaches(&call.state.closed, 1).await;
        }
        with(json(201, "{}"), "connection", "close")
    })
    .await;

    let (code, report) = report(&backend.url("/"), &["--keys", "3", "--concurrency", "2"]).await;

    assert_eq!(code, 2);
    let stopped = "no verdict: stopped after 1 of 3 keys: no repeat of key 2 could be sent: cannot connect:";
    assert!(line(&report).starts_with(stopped), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_stormed_is_refused_with_the_value_and_what_is_allowed() {
    let backend = Backend::start(|_| async { json(201, "{}") }).await;
    let (url, count) = (backend.url("/"), backend.url("/count"));
    let refusals: &[(&[&str], &[&str])] = &[
        (&["--url", "https://api.example/"], &["https://api.example/", "plain http only"]),
        (&["--url", "http://127.0.0.1:1/"], &["http://127.0.0.1:1/", "refused"]),
        (&["--url", &url, "--header", "nonsense"], &["nonsense", "Name: value"]),
        (&["--url", &url, "--header", "idempotency-key: 1"], &["idempotency-key", "storm sets"]),
        (&["--url", &url, "--keys", "0"], &["'0'", "--keys", "1..="]),
        (&["--url", &url, "--timeout", "60"], &["'60'", "60s"]),
        (&["--url", &url, "--abort-after", "0"], &["'0'", "longer than zero"]),
        (&["--url", &url, "--abort-after", "90s"], &["1m 30s", "--timeout 1m"]),
        (&["--url", &url, "--body", "@/no/such/file"], &["/no/such/file"]),
        (&["--url", &url, "--count-pointer", "/n"], &["--count-url"]),
        (&["--url", &url, "--count-url", &count, "--parallel-keys", "2"], &["{key}", &count]),
    ];
    for (arguments, expected) in refusals {
        let mut command = command(env!("CARGO_BIN_EXE_oncegate"));
        command.arg("storm").args(*arguments);
        let ended = run(command).await;

        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
        for text in *expected {
            assert!(ended.stderr.contains(text), "{arguments:?} does not name {text}: {}", ended.stderr);
        }
    }
    assert_eq!(backend.state.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_cannot_be_read_ends_the_storm_without_a_verdict() {
    let backend = Backend::start(|_| async { json(201, "{}") }).await;
    let counted = ["--count-url", &backend.url("/count"), "--count-pointer"];

    for (pointer, reason) in [("/total", "nothing at \"/total\""), ("/text", "neither a whole number")] {
        let (code, report) = report(&backend.url("/"), &[&counted[..], &[pointer]].concat()).await;

        assert_eq!(code, 2);
        assert!(
            line(&report).starts_with("no verdict: stopped after 0 of 10 keys: cannot count at http://"),
            "{report}"
        );
        assert!(line(&report).contains(reason), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_on_open_files_is_raised_or_named() {
    let backend = Backend::start(|call| async move {
        call.state.execute(&call.key);
        json(201, "{}")
    })
    .await;
    let storm_within = |limit: &str| {
        let mut command = command("sh");
        command.args(["-c", &format!(r#"ulimit {limit} 100 && exec "$0" "$@""#), env!("CARGO_BIN_EXE_oncegate")]);
        command.args(["storm", "--json", "--url", &backend.url("/"), "--keys", "1", "--concurrency", "150"]);
        run(command)
    };

    let raised = storm_within("-Sn").await;
    assert_eq!(raised.code, 0, "{}{}", raised.stdout, raised.stderr);
    assert_eq!(raised.report()["totals"]["raced"], 150);

    let refused = storm_within("-n").await;
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("150 repeats at a time need 214 open files and the hard limit is 100"));
    assert!(refused.stderr.contains("ulimit -Hn 214"));
}
