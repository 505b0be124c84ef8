//! The real binary, serving as a gate in front of a service.

use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::ServerProcess;

/// A running `oncegate serve` with its own SQLite store.
pub(crate) struct GateServer {
    // Before the directory, since fields are dropped in this order: the gate must not lose its store while it runs.
    _process: ServerProcess,
    _directory: TempDir,
    address: String,
}

impl GateServer {
    /// Starts a gate with nothing configured but its upstream, and waits until it listens.
    ///
    /// # Errors
    ///
    /// It does not start; the text has its log.
    pub(crate) fn start(upstream: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("oncegate-gate-").tempdir()?;
        let mut serve = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        serve
            .args(["serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .arg("--store")
            .arg(format!("sqlite://{}", directory.path().join("gate.db").display()))
            .current_dir(directory.path());
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"ONCEGATE") {
                serve.env_remove(variable);
            }
        }
        let (process, address) = ServerProcess::start("oncegate serve", serve, Signal::TERM, listening_address)?;
        Ok(Self { _process: process, _directory: directory, address })
    }

    /// The address of a path, through the gate.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

/// Finds `listening on http://ADDRESS`, the line about the data path.
fn listening_address(line: &str) -> Option<String> {
    let (_, address) = line.split_once("listening on http://")?;
    Some(format!("http://{}", address.split_whitespace().next()?))
}
