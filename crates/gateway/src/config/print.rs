//! `--print-config`: the effective values as TOML, and behind each where it comes from.

use std::fmt::Write as _;

use super::section::{Effective, SectionName};

/// Reads back as the same configuration, apart from masked secrets.
pub(super) fn effective(keys: &[Effective]) -> String {
    let lines: Vec<_> = keys.iter().map(|key| (key, assignment(key))).collect();
    let width =
        lines.iter().map(|(_, assignment)| assignment.chars().count()).filter(|width| *width <= WIDTH_MAX).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    let mut section = &SectionName::Top;
    for (key, assignment) in lines {
        if key.section != *section {
            section = &key.section;
            writeln!(text, "\n{}", heading(section)).expect("writing to a string cannot fail");
        }
        let origin = if key.shown.is_some() { key.origin.to_string() } else { "not set".to_owned() };
        writeln!(text, "{assignment:width$}  # {origin}").expect("writing to a string cannot fail");
    }
    text
}

/// Longer lines do not push the origins of all others to the right.
const WIDTH_MAX: usize = 60;

fn assignment(key: &Effective) -> String {
    match &key.shown {
        Some(shown) => format!("{} = {shown}", key.name),
        None => format!("# {}", key.name),
    }
}

fn heading(section: &SectionName) -> String {
    match section {
        SectionName::Top => String::new(),
        SectionName::Table(name) => format!("[{name}]"),
        SectionName::Member { list, .. } => format!("[[{list}]]"),
    }
}
