//! A Prometheus of the test's own, in a temporary directory, that scrapes and judges five times a second.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::process::ServerProcess;

/// Ports tried: somebody else may take a free one between our look and the server's start.
const PORTS_MAX: usize = 5;

/// How often it scrapes, and evaluates the rules.
const INTERVAL: &str = "200ms";

/// Longest wait for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it, also while a test panics, ends it.
pub(crate) struct Prometheus {
    // Before the directory: the server must not lose its files while it runs.
    _process: ServerProcess,
    port: u16,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts a server with these rules and this `scrape_configs`, and asks who answers.
    ///
    /// # Errors
    ///
    /// Prometheus is not installed, refuses its configuration, or another server answers.
    pub(crate) fn start(rules: &str, scrape_configs: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("oncegate-prometheus-").tempdir()?;
        let global = format!("global: {{scrape_interval: {INTERVAL}, evaluation_interval: {INTERVAL}}}");
        fs::write(directory.path().join("rules.yml"), rules)?;
        fs::write(
            directory.path().join("prometheus.yml"),
            format!("{global}\nrule_files: [rules.yml]\n{scrape_configs}"),
        )?;
        let (process, port) = start_on_any_port(directory.path())?;
        let server = Self { _process: process, port, _directory: directory };
        let flags = server.ask("/api/v1/status/flags")?;
        let data = server._directory.path().join("data");
        ensure!(flags["storage.tsdb.path"].as_str() == data.to_str(), "another server answers on port {port}: {flags}");
        Ok(server)
    }

    /// The names of the alerts that fire now.
    pub(crate) fn firing(&self) -> anyhow::Result<Vec<String>> {
        let alerts = self.ask("/api/v1/alerts")?;
        let alerts = alerts["alerts"].as_array().context("no list of alerts")?;
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        Ok(firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// The names of the alerts that fired at any time.
    pub(crate) fn fired(&self) -> anyhow::Result<Vec<String>> {
        let found = self.query(r#"count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))"#)?;
        let found = found["result"].as_array().context("no result")?;
        Ok(found.iter().map(|one| one["metric"]["alertname"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// What an expression comes to now.
    pub(crate) fn query(&self, expression: &str) -> anyhow::Result<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.ask(&format!("/api/v1/query?query={encoded}"))
    }

    fn ask(&self, path: &str) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        // Of HTTP/1.0, so that the answer comes in one piece and ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
        let mut answer: Value = serde_json::from_str(body).with_context(|| answer.clone())?;
        ensure!(answer["status"] == "success", "{answer}");
        Ok(answer["data"].take())
    }
}

fn start_on_any_port(directory: &Path) -> anyhow::Result<(ServerProcess, u16)> {
    let mut refused = None;
    for _ in 0..PORTS_MAX {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("prometheus");
        command.current_dir(directory).arg("--config.file=prometheus.yml").args([
            format!("--storage.tsdb.path={}", directory.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]);
        let ready = |line: &str| line.contains("Server is ready to receive web requests").then_some(());
        match ServerProcess::start("Prometheus", command, Signal::TERM, ready) {
            Ok((process, ())) => return Ok((process, port)),
            Err(error) if format!("{error:#}").contains("address already in use") => refused = Some(error),
            Err(error) => return Err(error.context("apt-get install prometheus")),
        }
    }
    Err(refused.expect("every try was refused, and there was one"))
}
