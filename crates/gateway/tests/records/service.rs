//! A service whose answers can be lost, and a gate in front of it.

use std::{
    io::Write as _,
    net::TcpListener,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    http::{self, Message, send},
    process::{Gate, run, text},
};

/// Answers each request with its number, or loses the answer after the work was done.
pub(crate) struct Service {
    url: String,
    loses_answers: Arc<AtomicBool>,
    executions: Arc<AtomicUsize>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (loses_answers, executions) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_losing, counted) = (Arc::clone(&loses_answers), Arc::clone(&executions));
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                if http::read(&mut stream).is_none() {
                    continue;
                }
                let body = format!("paid {}", counted.fetch_add(1, Ordering::SeqCst) + 1);
                if !is_losing.load(Ordering::SeqCst) {
                    let head = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                    // The gate may have been stopped meanwhile.
                    let _ = write!(stream, "HTTP/1.1 201 Created\r\n{head}{body}");
                }
            }
        });
        Self { url, loses_answers, executions }
    }

    pub(crate) fn lose_answers(&self, loses: bool) {
        self.loses_answers.store(loses, Ordering::SeqCst);
    }

    pub(crate) fn executions(&self) -> usize {
        self.executions.load(Ordering::SeqCst)
    }

    /// A gate that takes the caller's name from a header.
    pub(crate) fn gate(&self) -> Gate {
        self.gate_on(&[])
    }

    /// The same, with more flags.
    pub(crate) fn gate_on(&self, arguments: &[&str]) -> Gate {
        self.gate_with(arguments, &[])
    }

    /// The same, with more variables.
    pub(crate) fn gate_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Gate {
        let scope = ("ONCEGATE__DEFAULTS__SCOPE", r#"["header:X-Org"]"#);
        let variables = [&[scope], variables].concat();
        Gate::start_in(tempfile::tempdir().unwrap(), &self.url, arguments, &variables)
    }
}

/// A payment of a tenant.
pub(crate) fn pay(gate: &Gate, organisation: &str, key: &str) -> Message {
    let fields = format!("Idempotency-Key: {key}\r\nX-Org: {organisation}\r\n");
    send(&gate.address, "POST", "/payments", &fields).answer()
}

/// Repeats the payment until its answer has this body. What an operator did takes effect within five
/// seconds; a machine under load gets longer.
pub(crate) fn pay_until(gate: &Gate, (organisation, key): (&str, &str), body: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = pay(gate, organisation, key);
        if answer.body == body {
            return;
        }
        assert!(Instant::now() < deadline, "{body:?} does not come: {answer:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// `oncegate records …` in the gate's directory, by ada.
pub(crate) fn records(gate: &Gate, arguments: &[&str]) -> Output {
    run(gate.directory.path(), &[&["records"], arguments].concat(), &[("USER", "ada")])
}

/// What a command that succeeds prints as JSON.
pub(crate) fn printed(gate: &Gate, arguments: &[&str]) -> Value {
    let output = records(gate, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A command that must end with this code; what it says.
pub(crate) fn ended(gate: &Gate, arguments: &[&str], code: i32) -> String {
    let output = records(gate, arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}
