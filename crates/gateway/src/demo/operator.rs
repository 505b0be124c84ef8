//! An operator, who uses `oncegate records` as a person would.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::own;

/// Works on the gate's store, whether or not a gate runs.
#[derive(Debug)]
pub(super) struct Operator<'a> {
    pub(super) directory: &'a Path,
    pub(super) store: String,
}

/// An unknown record, as it was seen.
#[derive(Debug)]
pub(super) struct Seen {
    record: String,
    fence: String,
}

// === impl Operator ===

impl Operator<'_> {
    /// Finds the unknown record of a key.
    pub(super) async fn find_unknown(&self, key: &str) -> anyhow::Result<Seen> {
        let printed = self.records(&["list", "--state", "unknown", "--key", key, "--json"]).await?;
        let listed: Vec<Value> = serde_json::from_str(&printed).context("records list prints no JSON array")?;
        let [found] = &listed[..] else { anyhow::bail!("{} records of {key} are unknown, not one", listed.len()) };
        let record = found["record"].as_str().context("the record has no name")?.to_owned();
        Ok(Seen { record, fence: found["fence"].to_string() })
    }

    /// Says that it happened: repeats get this body.
    pub(super) async fn resolve(&self, seen: &Seen, body: &str) -> anyhow::Result<()> {
        let order = ["resolve", &seen.record, "--fence", &seen.fence, "--operator", "demo"];
        let response = ["--status", "201", "--header", "Content-Type: application/json", "--body", body];
        let reason = ["--reason", "the service has this payment"];
        self.records(&[&order[..], &response, &reason].concat()).await.map(drop)
    }

    async fn records(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut records = own::oncegate(self.directory)?;
        let ended = records.args(["records", "--store", &self.store]).args(arguments).output().await;
        let output = ended.context("oncegate records does not start")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "oncegate records {arguments:?} failed: {}", said.trim_end());
        String::from_utf8(output.stdout).context("oncegate records prints no text")
    }
}
