//! The published rules, dashboard and runbook, by themselves and beside each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::text;

/// A file of the repository.
pub(crate) fn published(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The names of all alerts.
pub(crate) fn alerts() -> BTreeSet<String> {
    let rules = published("monitoring/rules.yml");
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(repository().join("monitoring")).output();
    let output = output.expect("apt-get install prometheus");
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn prometheus_takes_the_rules_and_each_fires_on_what_it_is_for() {
    promtool(&["check", "rules", "rules.yml"]);
    promtool(&["test", "rules", "rules.test.yml"]);
    let tests = published("monitoring/rules.test.yml");
    let untested: Vec<_> =
        alerts().into_iter().filter(|name| !tests.contains(&format!("alertname: {name}\n"))).collect();
    assert!(untested.is_empty(), "no test for {untested:?}");
}

#[test]
fn every_alert_has_its_page() {
    let (rules, page) = (published("monitoring/rules.yml"), published("docs/runbook.md"));
    let headings: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect();
    assert_eq!(headings, alerts());
    for name in alerts() {
        assert!(
            rules.contains(&format!("/docs/runbook.md#{}\n", name.to_lowercase())),
            "{name} does not name its page"
        );
        let section = page.split(&format!("## {name}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        for part in ["**Meaning**", "**Impact**", "**Check**", "**Fix**"] {
            assert!(section.contains(part), "{name} says nothing of {part}");
        }
    }
}

/// Every metric that the files name must be among what a gate that has seen everything exports, with those labels.
pub(crate) fn assert_exported(metrics: &str) {
    let exported = exported(metrics);
    let recorded: BTreeSet<_> = published("monitoring/rules.yml")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .map(str::to_owned)
        .collect();
    for file in ["monitoring/rules.yml", "monitoring/rules.test.yml", "monitoring/dashboard.json"] {
        let published = published(file).replace("\\\"", "\"");
        let named = named(&published);
        assert!(named.len() > 10, "{file} names metrics");
        for (name, labels) in named {
            if name.contains(':') {
                assert!(recorded.contains(name), "{file} names {name}, which is not recorded");
                continue;
            }
            let known = exported.get(name).unwrap_or_else(|| panic!("{file} names {name}, which no gate exports"));
            // Prometheus adds these.
            let unknown: Vec<_> =
                labels.difference(known).filter(|label| !["job", "instance"].contains(label)).collect();
            assert!(unknown.is_empty(), "{file}: {name} has no labels {unknown:?}, but {known:?}");
        }
    }
}

/// The names of all samples, each with its labels.
fn exported(metrics: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut exported: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap();
        exported.entry(&line[..end]).or_default().extend(labels(&line[end..]));
    }
    exported
}

/// The names of metrics in a text, each with the labels that it is selected by.
fn named(text: &str) -> Vec<(&str, BTreeSet<&str>)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let mut named = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("oncegate_") {
        let start = rest[..at].rfind(|letter| !is_part(letter)).map_or(0, |before| before + 1);
        let end = at + rest[at..].find(|letter| !is_part(letter)).unwrap_or(rest.len() - at);
        named.push((&rest[start..end], labels(&rest[end..]).collect()));
        rest = &rest[end..];
    }
    named
}

/// The names in the braces with which a text begins, if it does.
fn labels(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.strip_prefix('{').and_then(|behind| behind.split('}').next()).unwrap_or_default();
    // A value may hold a comma; a name stands before `=`.
    inside.split(", ").flat_map(|part| part.split("\",")).filter_map(|part| {
        let name = part.split(['=', '!']).next()?.trim();
        Some(name).filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    })
}

#[test]
fn names_and_labels_are_read_as_prometheus_reads_them() {
    let expression =
        r#"sum(rate(oncegate_requests_total{job="a", status=~"2..|3.."}[5m])) / a:oncegate_x:b > oncegate_y"#;
    let named: Vec<_> = named(expression).into_iter().map(|(name, labels)| (name, labels.len())).collect();
    assert_eq!(named, [("oncegate_requests_total", 2), ("a:oncegate_x:b", 0), ("oncegate_y", 0)]);
    let line = "oncegate_requests_total{route=\"a\",outcome=\"executed\",status=\"201\"} 1";
    assert_eq!(exported(line)["oncegate_requests_total"], BTreeSet::from(["route", "outcome", "status"]));
}
