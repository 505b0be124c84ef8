//! `oncegate demo`, as a person or a program runs it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "gate/http.rs"]
mod http;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "gate/process.rs"]
mod process;
#[path = "demo/running.rs"]
mod running;

use std::{fs, net::TcpStream, process::Command};

use rustix::process::Signal;
use serde_json::Value;

use self::running::Demo;

/// What the service says itself, past everything that the demo prints.
fn counted(shown: &Value, query: &str) -> u64 {
    let answer = http::get(address(shown, "service"), &format!("/count{query}"), "");
    serde_json::from_str::<Value>(&answer.body).unwrap()["count"].as_u64().unwrap()
}

fn address<'a>(shown: &'a Value, name: &str) -> &'a str {
    shown[name].as_str().unwrap().strip_prefix("http://").unwrap()
}

#[test]
fn what_it_shows_is_what_the_service_counted() {
    let mut demo = Demo::start(&["--json", "--keep"]);
    let shown: Value = serde_json::from_str(&demo.next_line()).unwrap();
    assert_eq!(shown["is_true"], true, "{shown}");
    for (burst, payments) in [("straight", 50), ("gate", 1)] {
        let key = shown[burst]["key"].as_str().unwrap();
        assert_eq!(counted(&shown, &format!("?key={key}")), payments, "{shown}");
        assert_eq!((&shown[burst]["requests"], &shown[burst]["payments"]), (&50.into(), &payments.into()));
    }
    assert_eq!(counted(&shown, &format!("?key={}", shown["unknown"]["lost"]["key"].as_str().unwrap())), 1);
    assert_eq!((counted(&shown, ""), &shown["total_payments"]), (52, &52.into()));

    let ready = http::get(address(&shown, "admin"), "/readyz", "");
    assert_eq!(ready.status(), 200, "the gate still runs: {ready:?}");
    assert_eq!(http::pay(address(&shown, "gate_address"), "none-of-the-demo").status(), 404);

    assert_eq!(demo.gates().len(), 1);
    demo.signal(Signal::INT);
    let (code, left) = demo.wait();
    assert_eq!((code, left), (Some(0), Vec::<String>::new()));
    for name in ["service", "gate_address", "admin"] {
        assert!(TcpStream::connect(address(&shown, name)).is_err(), "{name} still listens");
    }
}

#[test]
fn it_ends_by_itself_and_leaves_nothing_behind() {
    let mut demo = Demo::start(&[]);
    let printed = demo.rest();
    assert!(printed.contains("All of this is true") && !printed.contains('✗'), "{printed}");
    assert_eq!(demo.wait(), (Some(0), Vec::<String>::new()));
}

#[test]
fn two_runs_share_no_key() {
    let keys = || {
        let shown: Value = serde_json::from_str(&Demo::start(&["--json"]).next_line()).unwrap();
        ["straight", "gate"].map(|burst| shown[burst]["key"].as_str().unwrap().to_owned())
    };
    let [straight, guarded] = keys();
    assert!(straight != guarded && !keys().iter().any(|key| [&straight, &guarded].contains(&key)));
}

#[test]
fn a_signal_in_the_middle_stops_what_was_started() {
    for signal in [Signal::TERM, Signal::HUP] {
        let mut demo = Demo::start(&["--keep"]);
        // The gate of the second scene runs by then.
        demo.wait_for_progress("3/5");
        demo.signal(signal);
        let (code, left) = demo.wait();
        // On a slow machine all may have been shown when the signal came.
        let expected = i32::from(demo.rest().is_empty());
        assert_eq!((code, left), (Some(expected), Vec::<String>::new()), "{signal:?}");
    }
}

#[test]
fn what_cannot_start_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("nowhere");
    let output = process::run(directory.path(), &["demo"], &[("TMPDIR", nowhere.to_str().unwrap())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(process::text(&output.stderr).contains("no temporary directory can be made"));
}

#[test]
fn the_lines_to_play_with_work_as_they_are_printed() {
    let mut demo = Demo::start(&["--keep"]);
    let mut script = String::new();
    loop {
        let line = demo.next_line();
        if line.starts_with("Metrics and probes") {
            break;
        }
        if let Some(typed) = line.strip_prefix("    ") {
            script += &format!("{typed}\n");
        }
    }
    fs::write(demo.directory().join("played.sh"), &script).unwrap();
    let output = Command::new("sh").args(["-eu", "played.sh"]).current_dir(demo.directory()).output().unwrap();
    let (printed, said) = (process::text(&output.stdout), process::text(&output.stderr));
    assert!(output.status.success(), "{script}{printed}{said}");

    let statuses: Vec<_> = printed.lines().filter(|line| line.len() == 3).collect();
    let [one, other, rest @ ..] = &statuses[..] else { panic!("{printed}{said}") };
    // On a slow machine the second of two repeats may come when the first has ended, and is a replay then.
    assert!(["409", "201"].contains(one) && ["409", "201"].contains(other), "{printed}{said}");
    assert_eq!(rest, ["201", "422", "201", "201", "502", "409"], "{printed}{said}");
    let counts: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix(r#"{"count":"#)).collect();
    let counts: Vec<_> = counts.iter().map(|rest| rest.split(',').next().unwrap()).collect();
    assert_eq!(counts, ["1", "2", "1"], "{printed}{said}");
    assert!(printed.lines().any(|line| line.contains(" unknown ") && line.contains("K3")), "{printed}{said}");
    fs::remove_file(demo.directory().join("played.sh")).unwrap();
    demo.signal(Signal::TERM);
    assert_eq!(demo.wait(), (Some(0), Vec::<String>::new()));
}
