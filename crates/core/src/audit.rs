//! What operators do to records, and what is kept of it.

use crate::{Fence, Operation, Record, RecordDigest, StateName, Timestamp};

// === types ===

/// A record as the operator saw it. What an operator asks for is done only while the record still has
/// this fence and this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Which record.
    pub record: RecordDigest,
    /// Its fence.
    pub fence: Fence,
    /// Its state.
    pub state: StateName,
}

/// Who does it, and why. It is written to the audit together with what it explains, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    operator: Box<str>,
    reason: Box<str>,
    /// Also delete a record under a live lease: its executor may still be at work, and a repeat then
    /// executes beside it.
    pub force: bool,
}

/// What an operator can do to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperatorVerb {
    /// In flight or unknown becomes completed; repeats get the response that the operator gave.
    Resolve,
    /// In flight or unknown becomes absent; a repeat executes.
    Release,
    /// Completed becomes absent; a repeat executes.
    Purge,
}

/// One thing that an operator did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// What was done.
    pub verb: OperatorVerb,
    /// To what, as the operator saw it.
    pub seen: Seen,
    /// What the record's first request asked for.
    pub operation: Operation,
    /// The status of the response that was given; only of [`OperatorVerb::Resolve`].
    pub status: Option<u16>,
    /// Who and why.
    pub note: Note,
}

/// A [`Note`] must say who and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// Nothing, or too much.
    #[error("the {field} has {length} bytes: 1 to {max} are allowed")]
    Length {
        /// `operator` or `reason`.
        field: &'static str,
        /// Bytes found, white space around them left out.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// It would garble the terminal of whoever reads the audit.
    #[error("the {field} has a control character, perhaps a line break: any other text is allowed")]
    Control {
        /// `operator` or `reason`.
        field: &'static str,
    },
}

// === impl Seen ===

impl Seen {
    /// What somebody who has just read the record saw.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        Self { record: record.id.digest(), fence: record.fence, state: record.state.name() }
    }

    /// Whether the record is still the same, as far as operators can tell.
    #[must_use]
    pub fn is_still(&self, record: &Record) -> bool {
        *self == Self::of(record)
    }
}

// === impl Note ===

impl Note {
    /// The longest name of an operator, in bytes.
    pub const OPERATOR_LENGTH_MAX: usize = 100;
    /// The longest reason, in bytes.
    pub const REASON_LENGTH_MAX: usize = 500;

    /// A note without force. White space around the texts is dropped.
    ///
    /// # Errors
    /// When one of them is empty, too long, or has a control character.
    pub fn new(operator: &str, reason: &str) -> Result<Self, NoteError> {
        let operator = checked("operator", operator, Self::OPERATOR_LENGTH_MAX)?;
        let reason = checked("reason", reason, Self::REASON_LENGTH_MAX)?;
        Ok(Self { operator, reason, force: false })
    }

    /// Says whether a live lease is no obstacle.
    #[must_use]
    pub fn with_force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Who.
    #[must_use]
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

fn checked(field: &'static str, text: &str, max: usize) -> Result<Box<str>, NoteError> {
    let text = text.trim();
    if text.is_empty() || text.len() > max {
        return Err(NoteError::Length { field, length: text.len(), max });
    }
    if text.chars().any(char::is_control) {
        return Err(NoteError::Control { field });
    }
    Ok(text.into())
}

// === impl NoteError ===

impl NoteError {
    /// Which text is wrong: `operator` or `reason`.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Length { field, .. } | Self::Control { field } => field,
        }
    }
}

// === impl OperatorVerb ===

impl OperatorVerb {
    /// Every verb.
    pub const ALL: [Self; 3] = [Self::Resolve, Self::Release, Self::Purge];

    /// What deleting a record of this state is called.
    #[must_use]
    pub fn deleting(state: StateName) -> Self {
        match state {
            StateName::InFlight | StateName::Unknown => Self::Release,
            StateName::Completed => Self::Purge,
        }
    }

    /// Whether it is for records of this state.
    #[must_use]
    pub fn leaves(self, state: StateName) -> bool {
        match (self, state) {
            (Self::Resolve | Self::Release, StateName::InFlight | StateName::Unknown) => true,
            (Self::Purge, StateName::Completed) => true,
            (Self::Resolve | Self::Release, StateName::Completed) => false,
            (Self::Purge, StateName::InFlight | StateName::Unknown) => false,
        }
    }

    /// The word that stores and operators use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Release => "release",
            Self::Purge => "purge",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_who_and_why() {
        let note = Note::new(" ada ", " charge found at the provider\n").unwrap();
        assert_eq!((note.operator(), note.reason(), note.force), ("ada", "charge found at the provider", false));
        assert!(note.with_force(true).force);
        for (operator, reason, field) in [
            ("", "why", "operator"),
            ("ada", " ", "reason"),
            (&*"a".repeat(101), "why", "operator"),
            ("ada", &*"w".repeat(501), "reason"),
            ("a\u{1b}[2J", "why", "operator"),
            ("ada", "one\ntwo", "reason"),
        ] {
            assert_eq!(Note::new(operator, reason).unwrap_err().field(), field, "{operator:?} {reason:?}");
        }
        assert!(Note::new(&"a".repeat(100), &"w".repeat(500)).is_ok());
    }

    #[test]
    fn each_word_reads_back() {
        for verb in OperatorVerb::ALL {
            assert_eq!(OperatorVerb::parse(verb.as_str()), Some(verb));
        }
    }
}
