//! What a gate exported at one time and another.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of each metric, each time that somebody looked.
#[derive(Default)]
pub(crate) struct Seen(Vec<BTreeMap<String, BTreeSet<String>>>);

impl Seen {
    /// Adds what is exported now.
    pub(crate) fn add(&mut self, metrics: &str) {
        let mut now: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in metrics.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            now.entry(name.to_owned()).or_default().insert(line.to_owned());
        }
        self.0.push(now);
    }

    /// The metrics that were the same each time.
    pub(crate) fn unmoved(&self) -> BTreeSet<&str> {
        let names = self.0.iter().flat_map(BTreeMap::keys);
        let is_moved = |name: &String| self.0.iter().any(|seen| seen.get(name) != self.0[0].get(name));
        names.filter(|name| !is_moved(name)).map(String::as_str).collect()
    }
}
