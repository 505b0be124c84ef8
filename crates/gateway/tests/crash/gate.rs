//! The real binary, made to die.

use std::{path::Path, process::Stdio};

use oncegate_core::Backend;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

pub(crate) struct Gate {
    child: Child,
    pub(crate) address: String,
}

impl Gate {
    /// Starts a gate on the store in `directory`; `crash_at` is a point and the passing that kills.
    pub(crate) async fn start(directory: &Path, upstream: &str, backend: Backend, crash_at: Option<&str>) -> Self {
        let config = directory.join("oncegate.toml");
        let text = format!("[defaults]\nbackend = \"{}\"\nlease = \"1s\"\n", backend.as_str());
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.arg("--config").arg(config);
        command.arg("--store").arg(format!("sqlite://{}", directory.join("gate.db").display()));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ONCEGATE")) {
            command.env_remove(name);
        }
        // A busy machine is no store that is down.
        command.env("ONCEGATE__STORE__TIMEOUT", "20s");
        if let Some(crash_at) = crash_at {
            command.env("ONCEGATE_CRASH_AT", crash_at);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let address = loop {
            let Some(line) = log.next_line().await.unwrap() else { panic!("the gate ended:\n{}", seen.join("\n")) };
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.split_whitespace().next().unwrap().to_owned();
            }
            seen.push(line);
        };
        // Read on, so that the gate never waits for its log.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        Self { child, address }
    }

    /// Waits until it has died by its own hand.
    pub(crate) async fn died(mut self) {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it ended by {status} instead of kill -9");
    }

    pub(crate) async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }
}
