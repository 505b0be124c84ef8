//! Where a value was written, and what is wrong with it.

use std::{fmt, sync::Arc};

// === types ===

/// Where a value comes from. Later variants win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody wrote it.
    Default,
    /// The configuration file.
    File(Place),
    /// An environment variable.
    Variable(Arc<str>),
    /// A command-line flag.
    Flag(&'static str),
}

/// A place in the configuration file; lines and columns (in characters) count from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(super) file: Arc<str>,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A value, and where it comes from.
#[derive(Debug, Clone)]
pub(super) struct Sourced<T> {
    pub(super) value: T,
    pub(super) origin: Origin,
}

/// Something that cannot be used, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    origin: Origin,
    text: String,
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug)]
pub(crate) struct Faults(Vec<Fault>);

// === impl Origin ===

impl Origin {
    /// Which of two origins wins: equal only for two places of one kind.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(Place { file, line, column }) => write!(f, "{file}:{line}:{column}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

// === impl Sourced ===

impl<T> Sourced<T> {
    /// A value that nobody wrote.
    pub(super) fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    /// Whether somebody wrote it.
    pub(super) fn is_written(&self) -> bool {
        self.origin != Origin::Default
    }

    /// This value if somebody wrote it, otherwise `derived`, which follows from other values.
    pub(super) fn or_derived(self, derived: T) -> Self {
        if self.is_written() { self } else { Self::default(derived) }
    }
}

// === impl Fault ===

impl Fault {
    pub(super) fn new(origin: &Origin, text: impl Into<String>) -> Self {
        Self { origin: origin.clone(), text: text.into() }
    }

    /// Says whose value it is; a variable or flag says that by itself.
    pub(super) fn of_key(self, name: &str) -> Self {
        match &self.origin {
            Origin::Default | Origin::File(_) => Self { text: format!("{name}: {}", self.text), ..self },
            Origin::Variable(_) | Origin::Flag(_) => self,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, text } = self;
        match origin {
            Origin::Default => f.write_str(text),
            Origin::Variable(name) => write!(f, "environment variable {name}: {text}"),
            Origin::File(_) | Origin::Flag(_) => write!(f, "{origin}: {text}"),
        }
    }
}

// === impl Faults ===

impl Faults {
    /// `Ok` if there are none. They are sorted by where they stand.
    pub(super) fn check(mut faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort();
        faults.dedup();
        Err(Self(faults))
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Fault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}
