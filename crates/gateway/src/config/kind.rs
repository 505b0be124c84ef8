//! How values of each kind are read, and how they are shown as TOML.

use std::time::Duration;

use super::{
    origin::Fault,
    written::{Value, Written},
};

// === types ===

/// A kind of value: what is allowed, and how it looks.
pub(super) trait Kind {
    /// What the program uses.
    type Value: Clone;

    /// Reads what was written. The fault names the value and what is allowed.
    fn read(&self, written: &Written) -> Result<Self::Value, Fault>;

    /// The value as TOML that reads back as the same value.
    fn show(&self, value: &Self::Value) -> String;
}

/// `"30s"`, within limits.
pub(super) struct Length {
    pub(super) min: Duration,
    pub(super) max: Duration,
}

/// `"10MiB"`, or a number of bytes, up to a limit.
pub(super) struct Size {
    pub(super) max: u64,
}

/// A whole number, within limits.
pub(super) struct Number {
    pub(super) min: u32,
    pub(super) max: u32,
}

/// `true` or `false`.
pub(super) struct YesOrNo;

/// One of a few words.
pub(super) struct Word<T: 'static>(pub(super) &'static [(&'static str, T)]);

/// Text with a form of its own.
pub(super) struct TextOf<T> {
    /// Reads the text; the error says what is wrong and what is allowed, and may quote the text.
    pub(super) read: fn(&str) -> Result<T, String>,
    pub(super) show: fn(&T) -> String,
}

/// A list of values of one kind, up to a limit.
pub(super) struct ListOf<K> {
    pub(super) kind: K,
    pub(super) max: usize,
}

/// Text that is never shown, of at least `min` bytes.
pub(super) struct Masked {
    pub(super) min: usize,
}

/// What stands in the place of a secret.
pub(super) const MASK: &str = "********";

// === impl Length ===

impl Kind for Length {
    type Value = Duration;

    fn read(&self, written: &Written) -> Result<Duration, Fault> {
        const ALLOWED: &str = r#"write a number with a unit in quotes, such as "500ms", "30s" or "24h""#;
        let shown = written.shown();
        let Some(text) = written.text() else {
            return Err(written.fault(format!("{shown} is not a duration: {ALLOWED}")));
        };
        let length = humantime::parse_duration(text)
            .map_err(|error| written.fault(format!("{shown} is not a duration ({error}): {ALLOWED}")))?;
        if !(self.min..=self.max).contains(&length) {
            let (min, max) = (length_text(self.min), length_text(self.max));
            return Err(written.fault(format!("{shown} is out of range: {min} to {max} are allowed")));
        }
        Ok(length)
    }

    fn show(&self, value: &Duration) -> String {
        quoted(&length_text(*value))
    }
}

/// A duration as people write it: `24h` and `60s`, not `1d` and `1m`.
pub(crate) fn length_text(length: Duration) -> String {
    /// Nanoseconds, name, and from how many on the unit is usual.
    const UNITS: [(u128, &str, u128); 6] = [
        (86_400_000_000_000, "d", 2),
        (3_600_000_000_000, "h", 1),
        (60_000_000_000, "m", 2),
        (1_000_000_000, "s", 1),
        (1_000_000, "ms", 1),
        (1_000, "us", 1),
    ];
    let nanoseconds = length.as_nanos();
    let is_usual =
        |(unit, _, least): &&(u128, &str, u128)| nanoseconds.is_multiple_of(*unit) && nanoseconds >= unit * least;
    match UNITS.iter().find(is_usual) {
        Some((unit, name, _)) => format!("{}{name}", nanoseconds / unit),
        None if nanoseconds == 0 => "0s".to_owned(),
        None => format!("{nanoseconds}ns"),
    }
}

// === impl Size ===

/// Binary and decimal units; the larger ones first, so that `show` finds the shortest form.
const SIZE_UNITS: [(u64, &str); 6] =
    [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];

impl Kind for Size {
    type Value = u64;

    fn read(&self, written: &Written) -> Result<u64, Fault> {
        let shown = written.shown();
        let size = match &written.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::Unquoted(text) | Value::Text(text) => size_of_text(text),
            Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        };
        let Some(size) = size else {
            let allowed = r#"write a number of bytes, or a whole number with KiB, MiB or GiB, such as "10MiB""#;
            return Err(written.fault(format!("{shown} is not a size: {allowed}")));
        };
        if size > self.max {
            return Err(written.fault(format!("{shown} is too large: at most {} is allowed", size_text(self.max))));
        }
        Ok(size)
    }

    fn show(&self, value: &u64) -> String {
        let text = size_text(*value);
        if text.ends_with('B') { quoted(&text) } else { text }
    }
}

fn size_of_text(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        unit => SIZE_UNITS.iter().find(|(_, name)| *name == unit)?.0,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `10MiB`, or the plain number where no binary unit fits.
fn size_text(bytes: u64) -> String {
    let fitting = SIZE_UNITS[..3].iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    fitting.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

// === impl Number ===

impl Kind for Number {
    type Value = u32;

    fn read(&self, written: &Written) -> Result<u32, Fault> {
        let written = written.as_toml();
        let number = match written.value {
            Value::Integer(number) => u32::try_from(number).ok(),
            Value::Unquoted(_)
            | Value::Text(_)
            | Value::Boolean(_)
            | Value::List(_)
            | Value::Table(_)
            | Value::Other(_) => None,
        };
        let Self { min, max } = self;
        number.filter(|number| (min..=max).contains(&number)).ok_or_else(|| {
            written.fault(format!("{} is not allowed: write a whole number from {min} to {max}", written.shown()))
        })
    }

    fn show(&self, value: &u32) -> String {
        value.to_string()
    }
}

// === impl YesOrNo ===

impl Kind for YesOrNo {
    type Value = bool;

    fn read(&self, written: &Written) -> Result<bool, Fault> {
        let written = written.as_toml();
        let Value::Boolean(flag) = written.value else {
            return Err(written.fault(format!("{} is not allowed: write true or false", written.shown())));
        };
        Ok(flag)
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

// === impl Word ===

impl<T: Copy + PartialEq> Kind for Word<T> {
    type Value = T;

    fn read(&self, written: &Written) -> Result<T, Fault> {
        let found = written.text().and_then(|text| self.0.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = self.0.iter().map(|(word, _)| format!("{word:?}")).collect();
            written.fault(format!("{} is not allowed: write {}", written.shown(), words.join(" or ")))
        })
    }

    fn show(&self, value: &T) -> String {
        let (word, _) = self.0.iter().find(|(_, each)| each == value).expect("every value of the type has a word");
        quoted(word)
    }
}

// === impl TextOf ===

impl<T: Clone> Kind for TextOf<T> {
    type Value = T;

    fn read(&self, written: &Written) -> Result<T, Fault> {
        let Some(text) = written.text() else {
            return Err(written.fault(format!("{} is not text: put it in quotes", written.shown())));
        };
        (self.read)(text).map_err(|error| written.fault(error))
    }

    fn show(&self, value: &T) -> String {
        quoted(&(self.show)(value))
    }
}

// === impl ListOf ===

impl<K: Kind> Kind for ListOf<K> {
    type Value = Vec<K::Value>;

    fn read(&self, written: &Written) -> Result<Vec<K::Value>, Fault> {
        let written = written.as_toml();
        let Value::List(list) = &written.value else {
            let allowed = r#"write a list, such as ["a", "b"]"#;
            return Err(written.fault(format!("{} is not a list: {allowed}", written.shown())));
        };
        if list.len() > self.max {
            return Err(written.fault(format!(
                "the list has {} entries: at most {} are allowed",
                list.len(),
                self.max
            )));
        }
        list.iter().map(|element| self.kind.read(element)).collect()
    }

    fn show(&self, value: &Vec<K::Value>) -> String {
        let shown: Vec<_> = value.iter().map(|element| self.kind.show(element)).collect();
        format!("[{}]", shown.join(", "))
    }
}

// === impl Masked ===

impl Kind for Masked {
    type Value = String;

    fn read(&self, written: &Written) -> Result<String, Fault> {
        let Some(text) = written.text() else {
            return Err(written.fault("a secret is text: put it in quotes"));
        };
        self.checked(text).map_err(|error| written.fault(error))
    }

    fn show(&self, _value: &String) -> String {
        quoted(MASK)
    }
}

impl Masked {
    /// The secret itself; refuses those that can be guessed, without showing them.
    pub(super) fn checked(&self, secret: &str) -> Result<String, String> {
        let (length, min) = (secret.len(), self.min);
        if secret.chars().any(|c| c.is_control()) {
            return Err(
                "the secret has a control character, perhaps a line break: any other text is allowed".to_owned()
            );
        }
        if secret.trim() != secret {
            return Err("the secret begins or ends with white space, which others may not see: remove it".to_owned());
        }
        if length < min {
            return Err(format!("the secret has {length} bytes: at least {min} are needed"));
        }
        Ok(secret.to_owned())
    }
}

/// The text as a TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
