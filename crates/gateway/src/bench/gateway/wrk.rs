//! wrk, the load.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tokio::process::Command;

/// What the request of this number carries. Each is a payment of its own: the same one under ever new keys would be a load of
/// suspected duplicates. `load.lua` does the same.
pub(super) fn body(number: u64) -> String {
    format!(r#"{{"amount":1250,"currency":"EUR","reference":"invoice {number:08}"}}"#)
}

/// Connections at once.
const CONNECTIONS: &str = "64";

/// A way to make load.
#[derive(Debug)]
pub(super) struct Wrk {
    program: PathBuf,
    script: PathBuf,
}

/// Which keys the requests carry.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    None,
    /// The prefix and a number that grows with every request.
    Unique(String),
    /// The prefix and a number up to this, over and over.
    Known(String, u64),
}

/// What wrk saw.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Seen {
    pub(super) requests: u64,
    micros: u64,
    pub(super) not_2xx: u64,
    /// Connections that failed or answers that were late.
    pub(super) broken: u64,
    pub(super) p50_micros: u64,
    pub(super) p99_micros: u64,
}

// === impl Wrk ===

impl Wrk {
    pub(super) fn new(program: &Path, directory: &Path) -> anyhow::Result<Self> {
        let script = directory.join("load.lua");
        fs::write(&script, include_str!("load.lua"))?;
        Ok(Self { program: program.to_owned(), script })
    }

    /// Loads `address` for so long.
    pub(super) async fn load(&self, address: SocketAddr, keys: &Keys, seconds: u32) -> anyhow::Result<Seen> {
        let (prefix, keys_max) = match keys {
            Keys::None => ("", 0),
            Keys::Unique(prefix) => (prefix.as_str(), 0),
            Keys::Known(prefix, keys_max) => (prefix.as_str(), *keys_max),
        };
        let mut command = Command::new(&self.program);
        command.args(["-t1", "-c", CONNECTIONS, "-d", &format!("{seconds}s"), "-s"]).arg(&self.script);
        command.arg(format!("http://{address}/payments")).args(["--", prefix, &keys_max.to_string(), &body(0)]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.context("wrk does not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().find_map(|line| line.strip_prefix("RESULT ")) {
            Some(result) => Ok(serde_json::from_str(result)?),
            None => bail!("wrk failed: {text}{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

// === impl Seen ===

impl Seen {
    /// What a request had of this CPU time, in microseconds.
    #[allow(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
    pub(super) fn share_of(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.requests as f64
    }

    #[allow(clippy::cast_precision_loss, reason = "counts and microseconds of a run are far below 2^53")]
    pub(super) fn per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.micros as f64
    }
}

#[cfg(test)]
impl Seen {
    /// So many requests within a second.
    pub(super) fn sample(requests: u64) -> Self {
        Self { requests, micros: 1_000_000, not_2xx: 0, broken: 0, p50_micros: 900, p99_micros: 3_000 }
    }
}
