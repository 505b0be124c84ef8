//! What was written, before anything is checked: the file, and over it variables and flags.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    ops::Range,
    sync::Arc,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::origin::{Fault, Origin, Place};

// === types ===

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// A value as it was written.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// The text of a variable or flag: a string without quotes, or any other value as TOML.
    Unquoted(String),
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// An array.
    List(Vec<Written>),
    /// A table.
    Table(Table),
    /// Something that no key allows, by what it is.
    Other(&'static str),
}

/// Keys and values.
#[derive(Debug, Clone, Default)]
pub(super) struct Table(BTreeMap<String, Entry>);

/// One key of a table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Where the key stands; the value has its own origin.
    pub(super) name: Origin,
    pub(super) written: Written,
}

/// Where the spans of a text lie.
trait Locate {
    fn locate(&self, span: Range<usize>) -> Origin;
}

/// The configuration file.
struct File<'a> {
    name: Arc<str>,
    text: &'a str,
}

// === impl Written ===

impl Written {
    /// A variable's or flag's text.
    pub(super) fn unquoted(origin: Origin, text: &str) -> Self {
        Self { origin, value: Value::Unquoted(text.to_owned()) }
    }

    /// The text, if this is a string.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Unquoted(text) | Value::Text(text) => Some(text),
            Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        }
    }

    /// The same value, with a variable's or flag's text read as TOML. Text that is not TOML stays.
    pub(super) fn as_toml(&self) -> Self {
        let Value::Unquoted(text) = &self.value else { return self.clone() };
        match DeValue::parse(text) {
            Ok(value) => converted(&value, &self.origin),
            Err(_) => self.clone(),
        }
    }

    /// A fault of this value.
    pub(super) fn fault(&self, text: impl Into<String>) -> Fault {
        Fault::new(&self.origin, text)
    }

    /// How messages name the value.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Unquoted(text) | Value::Text(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            Value::Other(what) => (*what).to_owned(),
        }
    }

    /// Every variable that this value was put together from.
    pub(super) fn variables(&self) -> Vec<Origin> {
        match &self.value {
            Value::Table(table) => table.0.values().flat_map(|entry| entry.written.variables()).collect(),
            Value::List(list) => list.iter().flat_map(Self::variables).collect(),
            Value::Unquoted(_) | Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Other(_) => {
                Some(self.origin.clone()).filter(|origin| matches!(origin, Origin::Variable(_))).into_iter().collect()
            }
        }
    }
}

// === impl Table ===

impl Table {
    /// Reads the file's text. `name` is how messages call the file.
    ///
    /// # Errors
    /// When it is not TOML.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Fault> {
        let file = File { name: name.into(), text };
        match DeTable::parse(text) {
            Ok(table) => Ok(converted_table(table.get_ref(), &file)),
            Err(error) => {
                let place = file.locate(error.span().unwrap_or(text.len()..text.len()));
                Err(Fault::new(&place, error.message()))
            }
        }
    }

    /// Takes a key out.
    pub(super) fn take(&mut self, name: &str) -> Option<Entry> {
        self.0.remove(name)
    }

    /// What stands under a key.
    pub(super) fn get(&self, name: &str) -> Option<&Written> {
        self.0.get(name).map(|entry| &entry.written)
    }

    /// What is left.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (String, Entry)> {
        self.0.into_iter()
    }

    /// Replaces what stands at `path`, making the tables on the way. Where a list is on the way, the
    /// next step names one of its tables by `name` or `id`.
    ///
    /// # Errors
    /// When no table of a list has that name, or something else than a table is on the way.
    pub(super) fn set(&mut self, path: &[String], written: Written) -> Result<(), Fault> {
        let origin = written.origin.clone();
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        if rest.is_empty() {
            self.0.insert(name, Entry { name: origin, written });
            return Ok(());
        }
        let entry = self.0.entry(name.clone()).or_insert_with(|| Entry {
            name: origin.clone(),
            written: Written { origin: origin.clone(), value: Value::Table(Self::default()) },
        });
        entry.written = entry.written.as_toml();
        match &mut entry.written.value {
            Value::Table(table) => table.set(rest, written),
            Value::List(list) => set_in_list((&name, list), rest, written),
            Value::Unquoted(_) | Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Other(_) => {
                Err(Fault::new(&origin, format!("{name} has no keys of its own: {} sets it", entry.written.origin)))
            }
        }
    }

    /// Lays every variable `ONCEGATE__TABLE__KEY` over what stands here.
    pub(super) fn set_variables(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<Fault> {
        let ours = variables.filter_map(|(name, value)| Some((own_variable(&name)?, value)));
        // Sorted, so that a whole list is set before the members of its tables.
        let ours: BTreeMap<Arc<str>, OsString> = ours.collect();
        let set = |(name, value): (Arc<str>, OsString)| {
            let origin = Origin::Variable(name.clone());
            let Some(value) = value.to_str() else {
                return Some(Fault::new(&origin, "the value is not UTF-8 text"));
            };
            let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_owned).collect();
            self.set(&path, Written::unquoted(origin, value)).err()
        };
        ours.into_iter().filter_map(set).collect()
    }
}

/// What the names of our variables begin with.
pub(super) const PREFIX: &str = "ONCEGATE__";

fn own_variable(name: &OsStr) -> Option<Arc<str>> {
    name.to_str().filter(|name| name.starts_with(PREFIX)).map(Into::into)
}

/// How a variable names a table of a list: `api-v2.pay` is `API_V2_PAY`.
pub(super) fn variable_segment(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

fn set_in_list(list: (&str, &mut Vec<Written>), path: &[String], written: Written) -> Result<(), Fault> {
    let (list_name, list) = list;
    let (wanted, rest) = path.split_first().expect("`set` goes into a list only with a path left");
    let mut names = Vec::new();
    for element in list {
        let Value::Table(table) = &mut element.value else { continue };
        let Some(name) = table.get("name").or_else(|| table.get("id")).and_then(Written::text) else { continue };
        let segment = variable_segment(name);
        if segment == variable_segment(wanted) {
            return table.set(rest, written);
        }
        names.push(segment);
    }
    let allowed = if names.is_empty() { "none is configured".to_owned() } else { names.join(", ") };
    Err(written.fault(format!("no [[{list_name}]] is called {wanted}: {allowed}")))
}

// === converting from toml's own types ===

fn converted(value: &Spanned<DeValue<'_>>, place: &impl Locate) -> Written {
    let origin = place.locate(value.span());
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Other("a huge number"), Value::Integer)
        }
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(array) => Value::List(array.iter().map(|element| converted(element, place)).collect()),
        DeValue::Table(table) => Value::Table(converted_table(table, place)),
    };
    Written { origin, value }
}

fn converted_table(table: &DeTable<'_>, place: &impl Locate) -> Table {
    let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let entry = Entry { name: place.locate(name.span()), written: converted(value, place) };
        (String::from(AsRef::<str>::as_ref(name.get_ref())), entry)
    };
    Table(table.iter().map(entry).collect())
}

// === impl Locate ===

impl Locate for File<'_> {
    fn locate(&self, span: Range<usize>) -> Origin {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::File(Place {
            file: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        })
    }
}

impl Locate for Origin {
    /// A variable is its own place, whatever part of its text is meant.
    fn locate(&self, _span: Range<usize>) -> Origin {
        self.clone()
    }
}
