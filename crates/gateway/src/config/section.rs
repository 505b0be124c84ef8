//! One table of the configuration while it is read.
//!
//! Reading is what makes a key known: the list of all keys, their effective values and where these
//! come from, and what is unknown, all follow from which keys were asked for.

use super::{
    kind::{Kind, quoted},
    origin::{Fault, Origin, Sourced},
    written::{PREFIX, Table, Value, Written, variable_segment},
};

// === types ===

/// One table while it is read.
#[derive(Debug)]
pub(super) struct Section {
    name: SectionName,
    origin: Origin,
    table: Table,
    asked: Vec<&'static str>,
    notes: Notes,
}

/// Which table: it decides how messages, variables and `--print-config` call it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SectionName {
    /// Outside of any table.
    Top,
    /// `[name]`.
    Table(&'static str),
    /// One of `[[list]]`, by its name or id.
    Member { list: &'static str, name: String },
}

/// What was found while reading.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) effective: Vec<Effective>,
    pub(super) faults: Vec<Fault>,
    unknown: Vec<Unknown>,
}

/// A key, the value that is used, and where it comes from.
#[derive(Debug, Clone)]
pub(super) struct Effective {
    pub(super) section: SectionName,
    pub(super) name: &'static str,
    /// As TOML; `None` if the key has no value.
    pub(super) shown: Option<String>,
    pub(super) origin: Origin,
}

/// A key that nobody asked for.
#[derive(Debug)]
struct Unknown {
    section: SectionName,
    name: String,
    origin: Origin,
    allowed: Vec<&'static str>,
}

// === impl Section ===

impl Section {
    /// The keys outside of any table, and everything below them.
    pub(super) fn top(table: Table) -> Self {
        Self::new(SectionName::Top, Origin::Default, table)
    }

    fn new(name: SectionName, origin: Origin, table: Table) -> Self {
        Self { name, origin, table, asked: Vec::new(), notes: Notes::default() }
    }

    /// Where the table stands.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The value of a key, or else the inherited one. A faulty value is noted and taken as absent, so
    /// that one reading finds all faults.
    pub(super) fn get<K: Kind>(
        &mut self,
        name: &'static str,
        kind: &K,
        inherited: Sourced<K::Value>,
    ) -> Sourced<K::Value> {
        let sourced = self.written(name, kind).unwrap_or(inherited);
        self.note(name, Some(kind.show(&sourced.value)), &sourced.origin);
        sourced
    }

    /// Whether a key is written.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// The value of a key that may be absent.
    pub(super) fn get_optional<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<Sourced<K::Value>> {
        let sourced = self.written(name, kind);
        let origin = sourced.as_ref().map_or(Origin::Default, |sourced| sourced.origin.clone());
        self.note(name, sourced.as_ref().map(|sourced| kind.show(&sourced.value)), &origin);
        sourced
    }

    /// The value of a key that must be there; its absence is a fault.
    pub(super) fn get_required<K: Kind>(
        &mut self,
        name: &'static str,
        kind: &K,
        how: &str,
    ) -> Option<Sourced<K::Value>> {
        let is_written = self.table.get(name).is_some();
        let sourced = self.get_optional(name, kind);
        if !is_written {
            self.fault(&self.origin.clone(), format!("{}{name} is not set: {how}", self.name.prefix()));
        }
        sourced
    }

    /// A table in this one; empty if it is not there.
    pub(super) fn section(&mut self, name: &'static str) -> Self {
        self.asked.push(name);
        let (origin, written) = match self.table.take(name) {
            Some(entry) => (entry.name, entry.written.as_toml()),
            None => (Origin::Default, Written { origin: Origin::Default, value: Value::Table(Table::default()) }),
        };
        let table = self.table_of(&written, &format!("write [{name}] and its keys below it"));
        Self::new(SectionName::Table(name), origin, table)
    }

    /// The tables of a list. `naming` is the key that names each of them.
    pub(super) fn sections(&mut self, list: &'static str, naming: &str) -> Vec<Self> {
        self.asked.push(list);
        let how = format!("write [[{list}]] and its keys below it");
        let Some(entry) = self.table.take(list) else { return Vec::new() };
        let written = entry.written.as_toml();
        let (variables, shown) = (written.variables(), written.shown());
        let Value::List(tables) = written.value else {
            for variable in &variables {
                self.fault(variable, format!("it changes one [[{list}]], and none is configured"));
            }
            if variables.is_empty() {
                self.fault(&written.origin, format!("{shown} is not allowed: {how}"));
            }
            return Vec::new();
        };
        let section = |written: Written| {
            let table = self.table_of(&written, &how);
            let name = table.get(naming).and_then(Written::text).unwrap_or_default().to_owned();
            Self::new(SectionName::Member { list, name }, written.origin, table)
        };
        tables.into_iter().map(section).collect()
    }

    /// Whether a fault was noted, so that one mistake is not reported twice.
    pub(super) fn has_faults(&self) -> bool {
        !self.notes.faults.is_empty()
    }

    /// Notes a fault.
    pub(super) fn fault(&mut self, origin: &Origin, text: impl Into<String>) {
        self.notes.faults.push(Fault::new(origin, text));
    }

    /// Ends the reading: what nobody asked for is unknown.
    pub(super) fn finish(mut self, notes: &mut Notes) {
        for (name, entry) in self.table.into_entries() {
            let variables = entry.written.variables();
            let origins = if variables.is_empty() { vec![entry.name] } else { variables };
            self.notes.unknown.extend(origins.into_iter().map(|origin| Unknown {
                section: self.name.clone(),
                name: name.clone(),
                origin,
                allowed: self.asked.clone(),
            }));
        }
        notes.effective.append(&mut self.notes.effective);
        notes.faults.append(&mut self.notes.faults);
        notes.unknown.append(&mut self.notes.unknown);
    }

    fn written<K: Kind>(&mut self, name: &'static str, kind: &K) -> Option<Sourced<K::Value>> {
        let entry = self.table.take(name)?;
        match kind.read(&entry.written) {
            Ok(value) => Some(Sourced { value, origin: entry.written.origin }),
            Err(fault) => {
                self.notes.faults.push(fault.of_key(name));
                None
            }
        }
    }

    fn note(&mut self, name: &'static str, shown: Option<String>, origin: &Origin) {
        self.asked.push(name);
        let section = self.name.clone();
        self.notes.effective.push(Effective { section, name, shown, origin: origin.clone() });
    }

    fn table_of(&mut self, written: &Written, how: &str) -> Table {
        let Value::Table(table) = &written.value else {
            self.fault(&written.origin, format!("{} is not allowed: {how}", written.shown()));
            return Table::default();
        };
        table.clone()
    }
}

// === impl SectionName ===

impl SectionName {
    /// Stands before a key's name in messages.
    pub(super) fn prefix(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Table(name) => format!("[{name}] "),
            Self::Member { list, name } if name.is_empty() => format!("[[{list}]] "),
            Self::Member { list, name } => format!("[[{list}]] {name}: "),
        }
    }

    /// The environment variable of a key.
    pub(super) fn variable(&self, key: &str) -> String {
        let key = key.to_ascii_uppercase();
        match self {
            Self::Top => format!("{PREFIX}{key}"),
            Self::Table(name) => format!("{PREFIX}{}__{key}", name.to_ascii_uppercase()),
            Self::Member { list, name } => {
                format!("{PREFIX}{}__{}__{key}", list.to_ascii_uppercase(), variable_segment(name))
            }
        }
    }
}

// === impl Notes ===

impl Notes {
    /// All faults, those of unknown keys included.
    pub(super) fn into_faults(mut self) -> (Vec<Effective>, Vec<Fault>) {
        let variables: Vec<_> = self.effective.iter().map(|key| key.section.variable(key.name)).collect();
        self.faults.extend(self.unknown.iter().map(|unknown| unknown.fault(&variables)));
        (self.effective, self.faults)
    }
}

// === impl Unknown ===

impl Unknown {
    fn fault(&self, variables: &[String]) -> Fault {
        let text = match &self.origin {
            Origin::Variable(name) => {
                // Without the prefix, which would make all of them similar.
                let behind_prefix = variables.iter().map(|variable| &variable[PREFIX.len()..]);
                let near =
                    nearest(&name[PREFIX.len()..], behind_prefix).map(|near| did_you_mean(&format!("{PREFIX}{near}")));
                format!("no such setting: {}", near.unwrap_or("see docs/configuration.md for all keys".to_owned()))
            }
            Origin::Default | Origin::File(_) | Origin::Flag(_) => {
                let hint = nearest(&self.name, self.allowed.iter().copied()).map(|near| did_you_mean(&quoted(near)));
                let allowed = || format!("allowed are {}", self.allowed.join(", "));
                format!("{}unknown key {:?}: {}", self.section.prefix(), self.name, hint.unwrap_or_else(allowed))
            }
        };
        Fault::new(&self.origin, text)
    }
}

fn did_you_mean(near: &str) -> String {
    format!("did you mean {near}?")
}

/// The candidate that is likely meant; `None` if none is near.
fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Two swapped letters of three are near, two other letters of four are not.
    const SIMILARITY_MIN: f64 = 0.6;
    let rated = candidates.map(|candidate| (strsim::normalized_damerau_levenshtein(written, candidate), candidate));
    let best = rated.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, candidate)| candidate)
}
